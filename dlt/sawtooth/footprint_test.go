package sawtooth_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
)

// addressIn returns the n-th full address in a namespace.
func addressIn(namespace string, n int) string {
	return fmt.Sprintf("%s%0*x", namespace, 70-len(namespace), n)
}

func TestFootprint(t *testing.T) {
	a, b, c := addressIn("1cf126", 1), addressIn("1cf126", 2), addressIn("1cf126", 3)
	one, two, other := strings.Repeat("1", 128), strings.Repeat("2", 128), strings.Repeat("3", 128)
	mark := batch.TransactionMark
	for name, x := range map[string]struct {
		in   []sawtooth.Declared
		want batch.Footprint
	}{
		"no transactions": {nil, batch.Footprint{}},
		"no addresses":    {[]sawtooth.Declared{{ID: one, Dependencies: []string{two}}}, batch.Footprint{}},
		"reads and writes": {
			[]sawtooth.Declared{{Inputs: []string{b, a}, Outputs: []string{c}}},
			batch.Footprint{Reads: []string{a, b}, Writes: []string{c}},
		},
		"what is written and read": {
			[]sawtooth.Declared{{ID: one, Inputs: []string{a}, Outputs: []string{a}}, {ID: two, Inputs: []string{a, b}, Outputs: []string{c}}},
			batch.Footprint{Reads: []string{b}, Writes: []string{a, c, mark(one), mark(two)}},
		},
		"a namespace covers": {
			[]sawtooth.Declared{{Inputs: []string{a, b}, Outputs: []string{"1cf126"}}, {Outputs: []string{c}}},
			batch.Footprint{Writes: []string{"1cf126"}},
		},
		"dependencies": {
			[]sawtooth.Declared{{ID: one, Outputs: []string{a}, Dependencies: []string{other}}},
			batch.Footprint{Reads: []string{mark(other)}, Writes: []string{a, mark(one)}},
		},
		"one of the same batch": { // [sawtooth.Check] refuses such a dependency
			[]sawtooth.Declared{{ID: one, Outputs: []string{a}}, {ID: two, Outputs: []string{b}, Dependencies: []string{one}}},
			batch.Footprint{Writes: []string{a, b, mark(one), mark(two)}},
		},
		"settings":               {[]sawtooth.Declared{{ID: one, Outputs: []string{addressIn("000000", 5)}}}, batch.Footprint{}},
		"settings, read":         {[]sawtooth.Declared{{Outputs: []string{a}}, {Inputs: []string{addressIn("000000", 5)}}}, batch.Footprint{}},
		"identities":             {[]sawtooth.Declared{{Outputs: []string{addressIn("00001d", 5)}}}, batch.Footprint{}},
		"the identity namespace": {[]sawtooth.Declared{{Outputs: []string{"00001d"}}}, batch.Footprint{}},
		"what covers settings":   {[]sawtooth.Declared{{Inputs: []string{"0000"}, Outputs: []string{a}}}, batch.Footprint{}},
		"the whole state":        {[]sawtooth.Declared{{Inputs: []string{a}, Outputs: []string{""}}}, batch.Footprint{}},
		"next to settings": {
			[]sawtooth.Declared{{Outputs: []string{"000001"}}},
			batch.Footprint{Writes: []string{"000001"}},
		},
		"odd length": {[]sawtooth.Declared{{Outputs: []string{"1cf"}}}, batch.Footprint{}},
		"upper case": {[]sawtooth.Declared{{Inputs: []string{"1CF126"}, Outputs: []string{a}}}, batch.Footprint{}},
		"too long":   {[]sawtooth.Declared{{Outputs: []string{a + "00"}}}, batch.Footprint{}},
	} {
		assert.Equal(t, x.want, sawtooth.Footprint(x.in...), name)
	}

	many := make([]string, batch.MaxFootprint+1)
	for i := range many {
		many[i] = addressIn("1cf126", i)
	}
	assert.Equal(t, batch.Footprint{}, sawtooth.Footprint(sawtooth.Declared{Outputs: many}), "more than can be stored")
	assert.Len(t, sawtooth.Footprint(sawtooth.Declared{Outputs: many[1:]}).Writes, batch.MaxFootprint)
}

// A built batch has the footprint of its transactions, and waits for the batch on whose
// transaction it depends even if they share no address.
func TestBuildFootprint(t *testing.T) {
	key := mustKey(t, privateKey1)
	build := func(address string, deps ...string) batch.Batch {
		b, err := sawtooth.Build(key, "s", sawtooth.Transaction{
			FamilyName: "intkey", FamilyVersion: "1.0", Nonce: address,
			Inputs: []string{address}, Outputs: []string{address}, Dependencies: deps,
		})
		require.NoError(t, err)
		require.NoError(t, b.Validate())
		return b
	}
	first := build(addressIn("1cf126", 1))
	same := build(addressIn("1cf126", 1)[:68])
	apart := build(addressIn("1cf126", 0x200))
	dependent := build(addressIn("1cf126", 0x300), first.Transactions[0].ID)
	settings := build(addressIn("000000", 4))
	assert.True(t, first.Footprint.Conflicts(same.Footprint))
	assert.False(t, first.Footprint.Conflicts(apart.Footprint))
	assert.True(t, first.Footprint.Conflicts(dependent.Footprint))
	assert.False(t, apart.Footprint.Conflicts(dependent.Footprint))
	assert.True(t, settings.Footprint.Conflicts(apart.Footprint))
}
