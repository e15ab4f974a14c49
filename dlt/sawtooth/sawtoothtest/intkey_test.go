package sawtoothtest

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// The address of "name" is that of the list vector in docs/ledgers/sawtooth.md#signatures, which
// belongs to the family intkey.
func TestAddress(t *testing.T) {
	a := Address("name")
	assert.Len(t, a, 70)
	assert.Equal(t, "1cf126", a[:6])
	assert.NotEqual(t, a, Address("other"))
}

// Payloads are encoded as in the example of the family's specification. A map with its keys in
// another order and its numbers in a longer form, as other encoders write it, can be read, too.
func TestPayloadIsCBOR(t *testing.T) {
	payload, address := encodeOperation("verb", "name", 1234)
	assert.Equal(t, "\xa3dVerbdverbdNamednameeValue\x19\x04\xd2", string(payload))
	assert.Equal(t, "1cf126cc488cca4cc3565a876f6040f8b73a7b92475be1d0b1bc453f6140fba7183b9a", address)
	for _, n := range []int64{0, 23, 24, 255, 256, 65535, 65536, 1<<32 - 1, 1 << 32} {
		payload, _ := Set("x", n)
		read, err := readCBORMap(payload)
		require.NoError(t, err)
		assert.Equal(t, map[string]any{"Verb": "set", "Name": "x", "Value": uint64(n)}, read)
	}
	n := Start(t, fastOptions(Options{}))
	b := makeBatch(t, intkeyTx([]byte("\xa3eValue\x1b\x00\x00\x00\x00\x00\x00\x00\x07dName\x78\x01xdVerbcset"), Address("x")))
	submitOK(t, n, b)
	waitForStatus(t, n, b, Committed)
	value, ok := n.Value("x")
	assert.True(t, ok)
	assert.Equal(t, int64(7), value)
}

func TestOrderShowsInState(t *testing.T) {
	n := Start(t, fastOptions(Options{}))
	set, inc, dec := makeBatch(t, intkeyTx(Set("x", 1))), makeBatch(t, intkeyTx(Inc("x", 5))), makeBatch(t, intkeyTx(Dec("x", 2)))
	submitOK(t, n, set, inc, dec)
	waitForStatus(t, n, dec, Committed)
	var got []string
	var values []int64
	for _, c := range n.History("x") {
		got = append(got, c.Verb)
		values = append(values, c.Value)
	}
	assert.Equal(t, []string{"set", "inc", "dec"}, got)
	assert.Equal(t, []int64{1, 6, 4}, values)
}

// A status lists what the processor said about an invalid transaction, with its data in base64.
// Empty fields are left out (docs/ledgers/sawtooth.md#asking-for-statuses).
func TestInvalidTransactions(t *testing.T) {
	set, address := Set("r", 1)
	two, _ := Inc("seven", 2)
	for _, c := range []struct {
		name string
		tx   unsignedTx
		data string // "" means that the key is missing
	}{
		{"dec below zero", intkeyTx(Dec("seven", 8)), "7"},
		{"inc of nothing", intkeyTx(Inc("unset", 1)), ""},
		{"dec of nothing", intkeyTx(Dec("unset", 1)), ""},
		{"inc beyond 32 bits", intkeyTx(Inc("seven", 1<<32-1)), "7"},
		{"more than 32 bits", intkeyTx(Set("much", 1<<32)), "4294967296"},
		{"negative", intkeyTx(Set("less", -1)), ""},
		{"long name", intkeyTx(Set("a name of 21 letters.", 1)), ""},
		{"no name", intkeyTx(Set("", 1)), ""},
		{"not a payload", intkeyTx([]byte("nonsense"), Address("seven")), ""},
		{"more behind it", intkeyTx(append(two, 0), Address("seven")), ""},
		{"cut off", intkeyTx(two[:len(two)-1], Address("seven")), ""},
		{"not a verb", intkeyTx(encodeOperation("mul", "seven", 2)), "mul"},
		{"not a number", intkeyTx([]byte("\xa3dVerbcincdNameeseveneValueax"), Address("seven")), "x"},
		{"no output", intkeyTx(set, address).withHeader(func(h *pb.TransactionHeader) { h.Outputs = nil }), ""},
		{"no input", intkeyTx(Inc("seven", 1)).withHeader(func(h *pb.TransactionHeader) { h.Inputs = []string{Address("other")} }), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := Start(t, fastOptions(Options{}))
			submitOK(t, n, makeBatch(t, intkeyTx(Set("seven", 7))))
			b := makeBatch(t, c.tx)
			submitOK(t, n, b)
			waitForStatus(t, n, b, Invalid)
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
	n := Start(t, fastOptions(Options{}))
	good := makeBatch(t, intkeyTx(Set("x", 1)))
	bad := makeBatch(t, intkeyTx(Set("x", 9)), intkeyTx(Inc("unset", 1)), intkeyTx(Set("x", 10)))
	after := makeBatch(t, intkeyTx(Inc("x", 1)))
	submitOK(t, n, good, bad, after)
	waitForStatus(t, n, after, Committed)
	assert.Equal(t, Invalid, askStatus(t, n, bad))
	_, invalid := statusOf(t, n, bad)
	require.Len(t, invalid, 1, "only what a processor refused is listed")
	assert.Equal(t, bad.GetTransactions()[1].GetHeaderSignature(), invalid[0].(map[string]any)["id"])
	value, _ := n.Value("x")
	assert.Equal(t, int64(2), value)
}

func TestPrefixesGiveAccess(t *testing.T) {
	n := Start(t, fastOptions(Options{}))
	b := makeBatch(t,
		intkeyTx(Set("x", 1)).withHeader(func(h *pb.TransactionHeader) { h.Inputs, h.Outputs = nil, []string{""} }),
		intkeyTx(Inc("x", 1)).withHeader(func(h *pb.TransactionHeader) { h.Inputs, h.Outputs = []string{"1cf126"}, []string{"1cf1"} }))
	submitOK(t, n, b)
	waitForStatus(t, n, b, Committed)
}
