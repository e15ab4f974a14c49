package sawtoothtest

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// The address of "name" in the whole-list vector of docs/ledgers/sawtooth.md#signatures belongs
// to family intkey.
func TestAddress(t *testing.T) {
	a := Address("name")
	assert.Len(t, a, 70)
	assert.Equal(t, "1cf126", a[:6])
	assert.NotEqual(t, a, Address("other"))
}

func TestOrderShowsInState(t *testing.T) {
	n := Start(t, fast(Options{}))
	set, inc, dec := mk(t, call(Set("x", 1))), mk(t, call(Inc("x", 5))), mk(t, call(Dec("x", 2)))
	submitOK(t, n, set, inc, dec)
	becomes(t, n, dec, Committed)
	var got []string
	var values []int64
	for _, c := range n.History("x") {
		got = append(got, c.Verb)
		values = append(values, c.Value)
	}
	assert.Equal(t, []string{"set", "inc", "dec"}, got)
	assert.Equal(t, []int64{1, 6, 4}, values)
}

// docs/ledgers/sawtooth.md#asking-for-statuses: what the processor said, base64 for its bytes;
// what is empty is left out.
func TestInvalidTransactions(t *testing.T) {
	set, address := Set("r", 1)
	for _, c := range []struct {
		name string
		tx   tx
		data string // "" where the key must be missing
	}{
		{"dec below zero", call(Dec("seven", 8)), "7"},
		{"inc of nothing", call(Inc("unset", 1)), ""},
		{"dec of nothing", call(Dec("unset", 1)), ""},
		{"inc beyond 63 bits", call(Inc("seven", 1<<63-1)), "7"},
		{"not a payload", call([]byte("nonsense"), Address("seven")), ""},
		{"not a verb", call([]byte("mul seven 2"), Address("seven")), "mul"},
		{"not a number", call([]byte("inc seven x"), Address("seven")), "x"},
		{"no output", call(set, address).with(func(h *pb.TransactionHeader) { h.Outputs = nil }), ""},
		{"no input", call(Inc("seven", 1)).with(func(h *pb.TransactionHeader) { h.Inputs = []string{Address("other")} }), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := Start(t, fast(Options{}))
			submitOK(t, n, mk(t, call(Set("seven", 7))))
			b := mk(t, c.tx)
			submitOK(t, n, b)
			becomes(t, n, b, Invalid)
			_, invalid := statusOf(t, n, b)
			require.Len(t, invalid, 1)
			tx := invalid[0].(map[string]any)
			assert.Equal(t, b.GetTransactions()[0].GetHeaderSignature(), tx["id"])
			assert.NotEmpty(t, tx["message"])
			if c.data == "" {
				assert.NotContains(t, tx, "extended_data")
				return
			}
			assert.Equal(t, base64.StdEncoding.EncodeToString([]byte(c.data)), tx["extended_data"])
		})
	}
}

// A batch takes effect as a whole or not at all.
func TestBatchIsAtomic(t *testing.T) {
	n := Start(t, fast(Options{}))
	good := mk(t, call(Set("x", 1)))
	bad := mk(t, call(Set("x", 9)), call(Inc("unset", 1)), call(Set("x", 10)))
	after := mk(t, call(Inc("x", 1)))
	submitOK(t, n, good, bad, after)
	becomes(t, n, after, Committed)
	assert.Equal(t, Invalid, word(t, n, bad))
	_, invalid := statusOf(t, n, bad)
	require.Len(t, invalid, 1, "only what a processor refused is listed")
	assert.Equal(t, bad.GetTransactions()[1].GetHeaderSignature(), invalid[0].(map[string]any)["id"])
	value, _ := n.Value("x")
	assert.Equal(t, int64(2), value)
}

func TestPrefixesGiveAccess(t *testing.T) {
	n := Start(t, fast(Options{}))
	b := mk(t,
		call(Set("x", 1)).with(func(h *pb.TransactionHeader) { h.Inputs, h.Outputs = nil, []string{""} }),
		call(Inc("x", 1)).with(func(h *pb.TransactionHeader) { h.Inputs, h.Outputs = []string{"1cf126"}, []string{"1cf1"} }))
	submitOK(t, n, b)
	becomes(t, n, b, Committed)
}
