package canton

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

const goodCommands = `{"commands":[{"ExerciseCommand":{"templateId":"#a:B:C","contractId":"00","choice":"X","choiceArgument":{}}}]}`

func TestCheck(t *testing.T) {
	c, err := New("http://localhost", &Options{MaxBody: 4096})
	require.NoError(t, err)
	good := batch.Batch{ID: "b-1", Service: "Alice::1220", Payload: []byte(goodCommands)}
	require.NoError(t, c.Check(good))
	for name, bend := range map[string]func(*batch.Batch){
		"no party":                func(b *batch.Batch) { b.Service = "" },
		"a party with a slash":    func(b *batch.Batch) { b.Service = "a/b" },
		"an id out of alphabet":   func(b *batch.Batch) { b.ID = "b{1}" },
		"an id too long":          func(b *batch.Batch) { b.ID = batch.ID(strings.Repeat("a", maxID+1)) },
		"no JSON":                 func(b *batch.Batch) { b.Payload = []byte("secret") },
		"null":                    func(b *batch.Batch) { b.Payload = []byte("null") },
		"a list":                  func(b *batch.Batch) { b.Payload = []byte("[]") },
		"two documents":           func(b *batch.Batch) { b.Payload = []byte(goodCommands + goodCommands) },
		"no commands":             func(b *batch.Batch) { b.Payload = []byte(`{}`) },
		"empty commands":          func(b *batch.Batch) { b.Payload = []byte(`{"commands":[]}`) },
		"a command id of its own": func(b *batch.Batch) { b.Payload = withField(`"commandId":"secret"`) },
		"a user of its own":       func(b *batch.Batch) { b.Payload = withField(`"userId":"secret"`) },
		"parties of its own":      func(b *batch.Batch) { b.Payload = withField(`"actAs":["secret"]`) },
		"a submission id":         func(b *batch.Batch) { b.Payload = withField(`"submissionId":"secret"`) },
		"a period of its own":     func(b *batch.Batch) { b.Payload = withField(`"deduplicationPeriod":{"Empty":{}}`) },
		"a field that is unknown": func(b *batch.Batch) { b.Payload = withField(`"secret":1`) },
		"another case":            func(b *batch.Batch) { b.Payload = withField(`"CommandId":"secret"`) },
		"a command of no kind":    func(b *batch.Batch) { b.Payload = []byte(`{"commands":[{}]}`) },
		"null for a command":      func(b *batch.Batch) { b.Payload = []byte(`{"commands":[null]}`) },
		"an unknown kind":         func(b *batch.Batch) { b.Payload = []byte(`{"commands":[{"SecretCommand":{}}]}`) },
		"two kinds":               func(b *batch.Batch) { b.Payload = []byte(`{"commands":[{"CreateCommand":{},"ExerciseCommand":{}}]}`) },
		"a field is missing":      func(b *batch.Batch) { b.Payload = []byte(`{"commands":[{"CreateCommand":{"templateId":"secret"}}]}`) },
		"a kind that is null":     func(b *batch.Batch) { b.Payload = []byte(`{"commands":[{"CreateCommand":null}]}`) },
		"too large":               func(b *batch.Batch) { b.Payload = withField(`"workflowId":"` + strings.Repeat("secret", 400) + `"`) },
	} {
		t.Run(name, func(t *testing.T) {
			b := good
			bend(&b)
			err := c.Check(b)
			var inputErr *batch.InputError
			require.ErrorAs(t, err, &inputErr)
			assert.NotContains(t, strings.ToLower(err.Error()), "secret")
			if name == "too large" {
				return // Check leaves room for the rest of the submission
			}
			err = c.Submit(t.Context(), batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
			assert.Equal(t, batch.KindRejected, dlt.Kind(err), "it is not sent: %v", err)
		})
	}
}

func withField(field string) []byte {
	return []byte(strings.TrimSuffix(goodCommands, "}") + "," + field + "}")
}

func TestTracesAreBounded(t *testing.T) {
	var x batchTraces
	key := func(n int) batch.Key { return batch.Key{ID: batch.ID(formatInt(int64(n)))} }
	for n := range 3 * maxTraces {
		x.update(key(n), func(t *batchTrace) { t.wasRead, t.readUpTo = true, int64(n) })
	}
	assert.LessOrEqual(t, len(x.newHalf)+len(x.oldHalf), 2*maxTraces)
	assert.EqualValues(t, 3*maxTraces-1, x.get(key(3*maxTraces-1)).readUpTo)
	assert.EqualValues(t, 2*maxTraces, x.get(key(2*maxTraces)).readUpTo)
	assert.False(t, x.get(key(0)).wasRead)
	x.update(key(2*maxTraces-1), func(t *batchTrace) { t.isDuplicate = true })
	x.forget(key(3*maxTraces - 1))
	assert.Zero(t, x.get(key(3*maxTraces-1)))
}
