package batch_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

func validBatch() batch.Batch {
	return batch.Batch{
		ID: "id", Service: "circuit::service", Payload: []byte("p"), DataChangeID: "change", SignerPublicKey: "02ab",
		Transactions: []batch.Transaction{{ID: "t1", FamilyName: "grid", FamilyVersion: "2", SignerPublicKey: "02ab"}, {ID: "t2"}},
		Footprint:    batch.Footprint{Reads: []string{"", "00"}, Writes: []string{"00"}},
		Budget:       batch.Budget{Attempts: 3},
	}
}

func TestValidateAccepts(t *testing.T) {
	for name, change := range map[string]func(*batch.Batch){
		"as it is":             func(*batch.Batch) {},
		"no service":           func(b *batch.Batch) { b.Service = "" },
		"the longest id":       func(b *batch.Batch) { b.ID = batch.ID(strings.Repeat("f", batch.MaxIDLen)) },
		"the longest service":  func(b *batch.Batch) { b.Service = batch.ServiceID(strings.Repeat("s", batch.MaxServiceLen)) },
		"any letters":          func(b *batch.Batch) { b.ID, b.Service = "ü 🦆/'%", "日本" },
		"the largest payload":  func(b *batch.Batch) { b.Payload = make([]byte, batch.MaxPayload) },
		"any bytes":            func(b *batch.Batch) { b.Payload = []byte{0} },
		"no transactions":      func(b *batch.Batch) { b.Transactions = nil },
		"the most prefixes":    func(b *batch.Batch) { b.Footprint = batch.Footprint{Reads: make([]string, batch.MaxFootprint)} },
		"an unlimited budget":  func(b *batch.Batch) { b.Budget = batch.Budget{} },
		"nothing but the need": func(b *batch.Batch) { *b = batch.Batch{ID: "i", Payload: []byte("p")} },
	} {
		b := validBatch()
		change(&b)
		assert.NoError(t, b.Validate(), name)
	}
}

func TestValidateNamesTheField(t *testing.T) {
	long := strings.Repeat("x", 257)
	for _, c := range []struct {
		field  string
		change func(*batch.Batch)
	}{
		{"ID", func(b *batch.Batch) { b.ID = "" }},
		{"ID", func(b *batch.Batch) { b.ID = batch.ID(long) }},
		{"ID", func(b *batch.Batch) { b.ID = "a\nb" }},
		{"ID", func(b *batch.Batch) { b.ID = "\xff" }},
		{"Service", func(b *batch.Batch) { b.Service = batch.ServiceID(long) }},
		{"Service", func(b *batch.Batch) { b.Service = "\x00" }},
		{"Payload", func(b *batch.Batch) { b.Payload = nil }},
		{"Payload", func(b *batch.Batch) { b.Payload = []byte{} }},
		{"Payload", func(b *batch.Batch) { b.Payload = make([]byte, batch.MaxPayload+1) }},
		{"Budget.Attempts", func(b *batch.Batch) { b.Budget.Attempts = -1 }},
		{"DataChangeID", func(b *batch.Batch) { b.DataChangeID = long }},
		{"DataChangeID", func(b *batch.Batch) { b.DataChangeID = "\u0085" }},
		{"SignerPublicKey", func(b *batch.Batch) { b.SignerPublicKey = "\x7f" }},
		{"Transactions.ID", func(b *batch.Batch) { b.Transactions[1].ID = "" }},
		{"Transactions.ID", func(b *batch.Batch) { b.Transactions[1].ID = "t1" }},
		{"Transactions.ID", func(b *batch.Batch) { b.Transactions[1].ID = long }},
		{"Transactions.FamilyName", func(b *batch.Batch) { b.Transactions[0].FamilyName = "\xc3\x28" }},
		{"Transactions.FamilyVersion", func(b *batch.Batch) { b.Transactions[0].FamilyVersion = long }},
		{"Transactions.SignerPublicKey", func(b *batch.Batch) { b.Transactions[1].SignerPublicKey = "\x00" }},
		{"Footprint", func(b *batch.Batch) { b.Footprint.Reads = make([]string, batch.MaxFootprint) }},
		{"Footprint.Reads", func(b *batch.Batch) { b.Footprint.Reads[1] = long }},
		{"Footprint.Writes", func(b *batch.Batch) { b.Footprint.Writes[0] = "\xed\xa0\x80" }},
	} {
		b := validBatch()
		c.change(&b)
		err := b.Validate()
		var inputErr *batch.InputError
		require.ErrorAs(t, err, &inputErr, c.field)
		assert.ErrorIs(t, err, batch.ErrInvalidInput)
		assert.Equal(t, c.field, inputErr.Field)
		assert.NotEmpty(t, inputErr.Want)
		assert.LessOrEqual(t, len(err.Error()), 400, "bounded, and no payload in it")
		if b.ID != "" && len(b.ID) <= batch.MaxIDLen {
			assert.Equal(t, b.Key(), inputErr.Key, c.field)
		}
	}
}

func FuzzValidate(f *testing.F) {
	f.Add("id", "service", []byte("p"), "change", "t", "00")
	f.Add("", "\x00", []byte{}, "\xff", "", "\n")
	f.Add(strings.Repeat("x", 300), "s", []byte("p"), "", "t", "")
	f.Fuzz(func(t *testing.T, id, service string, payload []byte, change, tx, prefix string) {
		b := batch.Batch{
			ID: batch.ID(id), Service: batch.ServiceID(service), Payload: payload, DataChangeID: change,
			Transactions: []batch.Transaction{{ID: tx}}, Footprint: batch.Footprint{Writes: []string{prefix}},
		}
		err := b.Validate()
		ok := id != "" && len(payload) > 0 && len(payload) <= batch.MaxPayload && tx != ""
		for _, s := range []string{id, service, change, tx, prefix} {
			ok = ok && len(s) <= 256 && utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
		}
		if ok {
			assert.NoError(t, err)
			return
		}
		var inputErr *batch.InputError
		require.ErrorAs(t, err, &inputErr)
		assert.NotEmpty(t, inputErr.Field)
		assert.True(t, utf8.ValidString(inputErr.Error()), "%q", inputErr.Error())
		assert.LessOrEqual(t, len(inputErr.Error()), 600)
	})
}

func TestInputError(t *testing.T) {
	cause := fmt.Errorf("why")
	err := &batch.InputError{Key: batch.Key{Service: "s", ID: "i"}, Field: "F", Value: "v\x00", Want: "w", Err: cause}
	assert.Equal(t, `dltbatch: invalid F "v\x00": want w (batch s/i): why`, err.Error())
	assert.ErrorIs(t, err, batch.ErrInvalidInput)
	assert.ErrorIs(t, err, cause)
	err.Key.Service = "s\n2"
	assert.Equal(t, `dltbatch: invalid F "v\x00": want w (batch "s\n2/i"): why`, err.Error(), "one line")
	assert.Equal(t, "dltbatch: invalid F: want w", (&batch.InputError{Field: "F", Want: "w"}).Error())
}

func TestSmallThings(t *testing.T) {
	assert.Equal(t, "s/i", batch.Key{Service: "s", ID: "i"}.String())
	assert.Equal(t, "i", batch.Key{ID: "i"}.String())
	assert.Equal(t, "busy", (&batch.SubmissionError{Kind: batch.KindBusy}).Error())
	assert.Equal(t, "busy: full", (&batch.SubmissionError{Kind: batch.KindBusy, Message: "full"}).Error())
	assert.NotEqual(t, batch.Batch{Payload: []byte("a")}.Hash(), batch.Batch{Payload: []byte("b")}.Hash())
	for _, c := range []struct {
		attempts, spent int
		want            bool
	}{{0, 0, false}, {0, 1000, false}, {1, 0, false}, {1, 1, true}, {3, 2, false}, {3, 3, true}, {3, 4, true}} {
		assert.Equal(t, c.want, batch.Budget{Attempts: c.attempts}.Exhausted(c.spent), "%+v", c)
	}
}

func TestTags(t *testing.T) {
	many := batch.Tags{}
	for i := range batch.MaxTags {
		many[fmt.Sprint("name", i)] = strings.Repeat("v", batch.MaxTagValue)
	}
	for _, good := range []batch.Tags{nil, {}, many, {strings.Repeat("n", batch.MaxTagName): "ü 🦆=', \""}} {
		b := batch.Batch{ID: "i", Payload: []byte("p"), Tags: good}
		require.NoError(t, b.Validate())
	}
	many["one more"] = "v"
	for _, bad := range []batch.Tags{
		many, {"": "v"}, {"n": ""}, {"a=b": "v"}, {strings.Repeat("n", batch.MaxTagName+1): "v"},
		{"n": strings.Repeat("v", batch.MaxTagValue+1)}, {"n": "\x00"}, {"\xff": "v"}, {"n": "a\nb"},
	} {
		err := batch.Batch{ID: "i", Service: "s", Payload: []byte("p"), Tags: bad}.Validate()
		var inputErr *batch.InputError
		require.ErrorAs(t, err, &inputErr, "%v", bad)
		assert.Equal(t, "Tags", inputErr.Field)
		assert.Equal(t, batch.Key{Service: "s", ID: "i"}, inputErr.Key)
	}
	for text, bad := range map[string]batch.Tags{
		`invalid Tags "invoice=a\nb": want a value: no control characters`: {"invoice": "a\nb"},
		`invalid Tags "a\nb": want a name: no control characters`:          {"a\nb": "4711"},
	} {
		assert.ErrorContains(t, bad.Validate(), text)
	}
	assert.Equal(t, "a=2, b=1", batch.Tags{"b": "1", "a": "2"}.String())
	for text, want := range map[string]batch.Tag{"invoice=4711": {Name: "invoice", Value: "4711"}, "4711": {Value: "4711"}, "a=b=c": {Name: "a", Value: "b=c"}} {
		got, err := batch.ParseTag(text)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		assert.Equal(t, text, got.String())
	}
	for _, bad := range []string{"", "=", "=4711", "invoice=", "a\x00=b"} {
		_, err := batch.ParseTag(bad)
		require.ErrorIs(t, err, batch.ErrInvalidInput, bad)
	}
}
