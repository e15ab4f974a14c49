package engine

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// A panic in a method of the store is the error of its call, is reported, and counts as a failure.
// Only meteredStore contains panics of the store, so methods that the engine does not call may
// panic.
func TestAPanicOfTheStoreIsTheErrorOfItsCall(t *testing.T) {
	told := 0
	v := newVitals()
	to := func(_ context.Context, c batch.Call) {
		told++
		assert.ErrorContains(t, c.Err, "panic: ", c.Op)
	}
	a := reflect.ValueOf(meteredStore{Store: substitutedStore{abilities: store.AllAbilities}, meter: newStoreMeter(to, v), loop: "queuer"}) // the store inside is nil, so each method panics
	var panicked []string
	for i := range a.NumMethod() {
		name, method := a.Type().Method(i).Name, a.Method(i)
		if name == "Abilities" { // New has called it already
			continue
		}
		args := []reflect.Value{reflect.ValueOf(t.Context())}
		for n := 1; n < method.Type().NumIn(); n++ {
			args = append(args, reflect.Zero(method.Type().In(n)))
		}
		call := method.Call
		if method.Type().IsVariadic() {
			call = method.CallSlice
		}
		var out []reflect.Value
		if loop.Contain(func() error { out = call(args); return nil }) != nil {
			panicked = append(panicked, name)
			continue
		}
		err, _ := reflect.TypeAssert[error](out[len(out)-1])
		_, is := errors.AsType[*loop.PanicError](err)
		assert.True(t, is, "%s: %v", name, err)
	}
	assert.Equal(t, []string{
		"Acts", "AppendStream", "ControlsOf", "Counts", "Find", "FindLanes", "FindStream", "Hear", "LeaseStream", "Owns", "Survey",
	}, panicked, "for operators and clients, Hear, which hints.Listener contains, and Owns, which is asked within the call of AddTx")
	assert.Equal(t, a.NumMethod()-1-len(panicked), told)
	assert.Equal(t, told, v.store.failures)
}
