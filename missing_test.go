package dltbatch_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/console"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/evm"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/probe"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
	"github.com/dltbatch/dltbatch/store/sqlite"
)

// A constructor refuses a missing argument with an error, instead of a panic at the first use.
func TestMissingArguments(t *testing.T) {
	orders := func(context.Context, order.Order) ([]sawtooth.Transaction, error) { return nil, nil }
	newRunner := func(o dltbatch.Options) error {
		_, err := dltbatch.New(memory.New(), ledgermem.New(nil), &o)
		return err
	}
	for of, call := range map[string]func() error{
		"no store":           func() error { _, err := dltbatch.New(nil, ledgermem.New(nil), nil); return err },
		"a nil store":        func() error { _, err := dltbatch.New((*memory.Store)(nil), ledgermem.New(nil), nil); return err },
		"no ledger":          func() error { _, err := dltbatch.New(memory.New(), nil, nil); return err },
		"a nil ledger":       func() error { _, err := dltbatch.New(memory.New(), (*ledgermem.Ledger)(nil), nil); return err },
		"a nil observer":     func() error { return newRunner(dltbatch.Options{Observer: batch.ObserverFunc(nil)}) },
		"no observer":        func() error { return newRunner(dltbatch.Options{Observers: []batch.Observer{nil}}) },
		"operator":           func() error { _, err := operator.New(nil); return err },
		"operator, a nil":    func() error { _, err := operator.New((*memory.Store)(nil)); return err },
		"console":            func() error { _, err := console.New(nil, nil); return err },
		"postgres":           func() error { _, err := postgres.New(nil, nil); return err },
		"native":             func() error { _, err := native.New(nil, nil); return err },
		"sqlite":             func() error { _, err := sqlite.New(nil, nil); return err },
		"orders, no store":   func() error { _, err := autobatch.New(nil, order.BuilderFunc(nil), nil); return err },
		"orders, no builder": func() error { _, err := autobatch.New(memory.New(), order.BuilderFunc(nil), nil); return err },
		"router":             func() error { _, err := dlt.NewRouter(dlt.Route{}); return err },
		"router, a nil":      func() error { _, err := dlt.NewRouter(dlt.Route{Ledger: (*ledgermem.Ledger)(nil)}); return err },
		"canton orders":      func() error { _, err := canton.NewOrderBuilder(nil, nil); return err },
		"sawtooth orders":    func() error { _, err := sawtooth.NewOrderBuilder((*sawtooth.PrivateKey)(nil), orders, nil); return err },
		"sawtooth batch":     func() error { _, err := sawtooth.NewBatch(nil, "s", nil, nil); return err },
		"sawtooth build": func() error {
			_, err := sawtooth.Build(nil, "s", sawtooth.Transaction{FamilyName: "intkey", FamilyVersion: "1.0"})
			return err
		},
		"evm signer": func() error { _, err := evm.NewSigner("http://127.0.0.1:1", 1, (*evm.KeySigner)(nil), nil); return err },
	} {
		var inputErr *batch.InputError
		if assert.ErrorAs(t, call(), &inputErr, of) {
			assert.NotEmpty(t, inputErr.Field, of)
			assert.NotEmpty(t, inputErr.Want, of)
		}
	}
	answer := httptest.NewRecorder()
	probe.Ready((*dltbatch.Runner)(nil), nil).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Equal(t, 503, answer.Code)
	assert.Contains(t, answer.Body.String(), "no source")
}
