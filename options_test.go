package dltbatch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// blindStrategy is a strategy that selects nothing, with a given window.
func blindStrategy(window int) queuer.Strategy {
	return queuer.Strategy{Name: "blind", Window: window, Select: func(batch.Lane) []batch.Run { return nil }}
}

// New refuses each bad option. An error about two fields names both values.
func TestNewChecksItsOptions(t *testing.T) {
	type options = dltbatch.Options
	const s, ms = time.Second, time.Millisecond
	for name, c := range map[string]struct {
		o     options
		field string   // the field that the error names; "" if there is no error
		names []string // values and fields that the error names
	}{
		"defaults":                    {options{}, "", nil},
		"negative RequestTimeout":     {options{RequestTimeout: -1}, "RequestTimeout", nil},
		"negative ClaimTTL":           {options{ClaimTTL: -1}, "ClaimTTL", nil},
		"negative PollInterval":       {options{PollInterval: -1, FirstPoll: 1}, "PollInterval", nil},
		"negative FirstPoll":          {options{FirstPoll: -1}, "FirstPoll", nil},
		"negative ScanInterval":       {options{ScanInterval: -1}, "ScanInterval", nil},
		"negative RetryDelay":         {options{Retry: dltbatch.RetryPolicy{Delay: -1}}, "Retry.Delay", nil},
		"negative MaxRetryDelay":      {options{Retry: dltbatch.RetryPolicy{MaxDelay: -1}}, "Retry.MaxDelay", nil},
		"negative QuickRetryPause":    {options{Retry: dltbatch.RetryPolicy{QuickRetryPause: -1}}, "Retry.QuickRetryPause", nil},
		"negative Drain":              {options{Drain: -1}, "Drain", nil},
		"negative StuckAfter":         {options{StuckAfter: -1}, "StuckAfter", nil},
		"negative Rest":               {options{Rest: -1}, "Rest", nil},
		"negative Pool":               {options{Pool: -1}, "Pool", []string{"-1"}},
		"negative ClaimLimit":         {options{ClaimLimit: -2}, "ClaimLimit", []string{"-2"}},
		"negative StatusConnections":  {options{StatusConnections: -1}, "StatusConnections", nil},
		"negative QuickRetries: none": {options{Retry: dltbatch.RetryPolicy{QuickRetries: -1}}, "", nil},

		"claim as short as a request":         {options{ClaimTTL: 15 * s}, "ClaimTTL", []string{"15s", "RequestTimeout (15s)", "margin (5s)"}},
		"claim as long as its margin":         {options{ClaimTTL: 20 * s}, "ClaimTTL", []string{"20s", "RequestTimeout (15s)"}},
		"claim just long enough":              {options{ClaimTTL: 20*s + 1, Retry: dltbatch.RetryPolicy{QuickRetries: -1}}, "", nil},
		"margin of a third":                   {options{RequestTimeout: 3 * s, ClaimTTL: 4 * s}, "ClaimTTL", []string{"RequestTimeout (3s)", "margin (1s)"}},
		"margin of 100 ms at least":           {options{RequestTimeout: 30 * ms, ClaimTTL: 130 * ms}, "ClaimTTL", []string{"130ms", "margin (100ms)"}},
		"short and consistent":                {options{RequestTimeout: 30 * ms, ClaimTTL: 500 * ms}, "", nil},
		"request longer than the claim":       {options{RequestTimeout: time.Minute}, "ClaimTTL", []string{"1m0s"}},
		"drain shorter than a request":        {options{Drain: 14 * s}, "Drain", []string{"14s", "RequestTimeout (15s)"}},
		"drain as long as a request":          {options{Drain: 15 * s}, "", nil},
		"drain follows a long request":        {options{RequestTimeout: 40 * s}, "", nil},
		"first poll after the interval":       {options{FirstPoll: 2 * s}, "FirstPoll", []string{"2s", "PollInterval (1s)"}},
		"poll interval below the first poll":  {options{PollInterval: 5 * ms}, "", nil},
		"longest delay below the first":       {options{Retry: dltbatch.RetryPolicy{Delay: 5 * s, MaxDelay: 4 * s}}, "Retry.MaxDelay", []string{"4s", "Retry.Delay (5s)"}},
		"longest delay follows":               {options{Retry: dltbatch.RetryPolicy{Delay: 20 * s}}, "", nil},
		"quick retry does not fit":            {options{Retry: dltbatch.RetryPolicy{QuickRetryPause: 41 * s}}, "Retry.QuickRetryPause", []string{"41s", "ClaimTTL (1m0s)", "RequestTimeout (15s)"}},
		"quick retry just fits":               {options{Retry: dltbatch.RetryPolicy{QuickRetryPause: 40 * s}}, "", nil},
		"no quick retries, whatever pause":    {options{Retry: dltbatch.RetryPolicy{QuickRetryPause: 41 * s, QuickRetries: -1}}, "", nil},
		"a strategy that wants to see none":   {options{Strategy: blindStrategy(0)}, "Strategy.Window", []string{"0"}},
		"a strategy without a func":           {options{Strategy: queuer.Strategy{Name: "own", Window: 1}}, "Strategy.Select", nil},
		"a strategy with another's name":      {options{Strategy: queuer.Strategy{Name: "serial", Window: 1, Select: blindStrategy(1).Select}}, "Strategy.Name", nil},
		"a strategy that wants to see enough": {options{Strategy: blindStrategy(1)}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := dltbatch.New(memory.New(), ledgermem.New(nil), &c.o)
			if c.field == "" {
				require.NoError(t, err)
				require.NotNil(t, r)
				return
			}
			require.Nil(t, r)
			require.ErrorIs(t, err, batch.ErrInvalidInput)
			var inputErr *batch.InputError
			require.ErrorAs(t, err, &inputErr)
			assert.Equal(t, "Options."+c.field, inputErr.Field)
			for _, n := range append(c.names, c.field) {
				assert.Contains(t, err.Error(), n)
			}
		})
	}
}

// A name must be one line of printable text of bounded length, because it is shown in logs, labels
// of metrics and tables of a terminal, and stored in the database.
func TestNamesArePrintable(t *testing.T) {
	newRunner := func(l dlt.Ledger, o dltbatch.Options) error {
		_, err := dltbatch.New(memory.New(), l, &o)
		return err
	}
	for field, use := range map[string]func(name string) error{
		"Options.Instance": func(name string) error { return newRunner(ledgermem.New(nil), dltbatch.Options{Instance: name}) },
		"Options.Strategy.Name": func(name string) error {
			s := blindStrategy(1)
			s.Name = name
			return newRunner(ledgermem.New(nil), dltbatch.Options{Strategy: s})
		},
		"Traits.Name": func(name string) error { return newRunner(namedLedger(name, nil, nil), dltbatch.Options{}) },
		"routes[0].Ledger": func(name string) error {
			_, err := dlt.NewRouter(dlt.Route{Ledger: namedLedger(name, nil, nil)})
			return err
		},
		"Shard.Set":       func(name string) error { return store.Shard{Set: name, Of: 1}.Validate() },
		"Instance.Name":   func(name string) error { return store.Instance{ID: "i", Name: name}.Validate() },
		"RefreshQuery.By": func(name string) error { _, err := store.RefreshQuery{By: name}.Bounded(); return err },
	} {
		require.NoError(t, use("näme of 1"), field)
		for bad, want := range map[string]string{
			"a\nb": "no control characters", "a\tb": "no control characters", "a\x1b[2Jb": "no control characters",
			"a\xffb": "valid UTF-8", strings.Repeat("n", 2000): "bytes, has 2000",
		} {
			err := use(bad)
			require.ErrorIs(t, err, batch.ErrInvalidInput, "%s %q", field, bad)
			assert.ErrorContains(t, err, field)
			assert.ErrorContains(t, err, want, field)
			assert.Less(t, len(err.Error()), 200, field)
		}
	}
}

// New neither changes the caller's options nor reads them again later.
func TestNewCopiesItsOptions(t *testing.T) {
	o := dltbatch.Options{}
	_, err := dltbatch.New(memory.New(), ledgermem.New(nil), &o)
	require.NoError(t, err)
	assert.Equal(t, dltbatch.Options{}, o)
}
