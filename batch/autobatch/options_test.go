package autobatch

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
)

type noStore struct{ order.Store }

func TestOptionsAreChecked(t *testing.T) {
	build := order.BuilderFunc(func(context.Context, batch.ServiceID, []order.Order) (batch.Batch, error) { return batch.Batch{}, nil })
	for field, o := range map[string]*Options{
		"FlushAge":         {FlushAge: -1},
		"BatchInterval":    {BatchInterval: -1},
		"MonitorInterval":  {MonitorInterval: -1},
		"RetryInterval":    {RetryInterval: -1},
		"RecoveryInterval": {RecoveryInterval: 2 * time.Minute},
		"BuildTimeout":     {BuildTimeout: -1},
		"StoreTimeout":     {StoreTimeout: -1},
		"Drain":            {Drain: time.Second},
		"DB":               {DB: "oracle"},
		"MaxSize":          {MaxSize: -1},
		"MaxBytes":         {MaxBytes: batch.MaxPayload + 1},
		"Workers":          {Workers: -1},
	} {
		_, err := New(noStore{}, build, o)
		var inputErr *batch.InputError
		require.ErrorAs(t, err, &inputErr, field)
		assert.Equal(t, "Options."+field, inputErr.Field)
	}
	_, err := New(noStore{}, build, &Options{FlushAge: time.Second, MaxSize: 1})
	require.ErrorContains(t, err, "MaxSize (1)", "both values are named")
	_, err = New(noStore{}, build, &Options{Drain: 20 * time.Second, StoreTimeout: 21 * time.Second})
	require.ErrorContains(t, err, "StoreTimeout (21s)")
	_, err = New(nil, build, nil)
	require.ErrorIs(t, err, batch.ErrInvalidInput)
	_, err = New(noStore{}, nil, nil)
	require.ErrorIs(t, err, batch.ErrInvalidInput)
	_, err = New(noStore{}, build, nil)
	require.NoError(t, err)
	assert.Equal(t, batch.Budget{Attempts: 5, EveryTry: true}, (*Options)(nil).withDefaults().budget())
	assert.Equal(t, batch.Budget{EveryTry: true}, (&Options{MaxAttempts: -1}).withDefaults().budget(), "unlimited")
}

func lookupOf(m map[string]string) func(string) string {
	return func(name string) string { return m[name] }
}

func TestFromEnv(t *testing.T) {
	o, err := FromEnv(lookupOf(nil))
	require.NoError(t, err)
	assert.True(t, o.Disabled, "disabled by default")
	assert.Equal(t, Options{Disabled: true}, o, "the rest has its defaults")

	o, err = FromEnv(lookupOf(map[string]string{
		EnvSwitch: "true", EnvDBType: "psql", EnvMaxSize: "256", EnvMaxBytes: "-1", EnvMaxAttempts: "3", EnvFlushAge: "250ms",
		EnvBatchInterval: "2s", EnvMonitorInterval: "3s", EnvRetryInterval: "4s", EnvRecoveryInterval: " 5s ",
	}))
	require.NoError(t, err)
	assert.Equal(t, Options{
		DB: DBPostgres, MaxSize: 256, MaxBytes: -1, MaxAttempts: 3, FlushAge: 250 * time.Millisecond,
		BatchInterval: 2 * time.Second, MonitorInterval: 3 * time.Second, RetryInterval: 4 * time.Second, RecoveryInterval: 5 * time.Second,
	}, o)

	bad := map[string]string{
		EnvSwitch: "yes please", EnvDBType: "h2", EnvMaxSize: "0", EnvMaxBytes: "-2", EnvMaxAttempts: "many", EnvFlushAge: "-1s",
		EnvBatchInterval: "0s", EnvMonitorInterval: "1000", EnvRetryInterval: "soon", EnvRecoveryInterval: "-1ms",
	}
	_, err = FromEnv(lookupOf(bad))
	require.ErrorIs(t, err, batch.ErrInvalidInput)
	for name, value := range bad {
		assert.ErrorContains(t, err, name, "all of them are told at once")
		_, err := FromEnv(lookupOf(map[string]string{name: value}))
		in, ok := errors.AsType[*batch.InputError](err)
		require.True(t, ok, name)
		assert.Equal(t, name, in.Field)
		assert.NotEmpty(t, in.Want)
	}
	_, err = FromEnv(lookupOf(map[string]string{EnvRecoveryInterval: "2m"}))
	require.ErrorContains(t, err, "RecoveryInterval", "what does not go together")
}
