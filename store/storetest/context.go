package storetest

import (
	"context"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func contextTests() []test {
	return []test{{name: "a context that is done changes nothing", run: testContextDone}}
}

func testContextDone(f *fixture) {
	named := f.makeOneOfEach()
	f.passUnits(1)
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	key := func(standing string) batch.Key {
		if s := f.batches[named[standing]]; s != nil {
			return s.batch.Key()
		}
		return newBatch("s", "none").Key() // the store lacks the ability to bring a batch into this standing
	}
	seen := func(standing string) batch.Record {
		if s := f.batches[named[standing]]; s != nil {
			return s.row.Record(key(standing))
		}
		return batch.Record{Key: key(standing), Version: 1}
	}
	for _, m := range abilityMethods(ctx, f.store, key, seen) {
		if f.hasAbilities(m.ability) {
			assert.ErrorIs(f, m.call(), context.Canceled, m.name)
		}
	}
	f.requireAbsent(newBatch("s", "new"))
	for _, id := range named {
		f.get(id)
	}
	if f.hasAbilities(store.CanControl) {
		f.requireSameControl(batch.Only("queued"))
	}
	if f.hasAbilities(store.CanKeepTexts) {
		assert.Zero(f, f.text("kind", "name").Version)
	}
	assert.Len(f, f.pending(100, f.units(0.5)), 11)
}
