package batch_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

const traceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// badTraceParents returns values that a header may have and that no batch keeps.
func badTraceParents() map[string]string {
	return map[string]string{
		"empty":               "",
		"a word":              "malformed",
		"too short":           traceParent[:54],
		"too long":            traceParent + "0",
		"with more behind it": traceParent + "-more",
		"8 KB":                strings.Repeat("0", 8<<10),
		"a version to come":   "cc" + traceParent[2:],
		"no version":          "ff" + traceParent[2:],
		"upper case":          strings.ToUpper(traceParent),
		"no trace id":         "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"no parent id":        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		"no digit":            strings.Replace(traceParent, "4bf9", "4bg9", 1),
		"flags without digit": traceParent[:53] + "0x",
		"other separators":    strings.ReplaceAll(traceParent, "-", "_"),
		"a NUL":               traceParent[:54] + "\x00",
	}
}

func TestValidTraceParent(t *testing.T) {
	assert.True(t, batch.ValidTraceParent(traceParent))
	assert.True(t, batch.ValidTraceParent(traceParent[:53]+"00"), "not sampled")
	assert.True(t, batch.ValidTraceParent(traceParent[:53]+"ff"), "flags that nobody knows yet")
	for name, s := range badTraceParents() {
		assert.False(t, batch.ValidTraceParent(s), name)
	}
}

// Validate refuses a trace context that a Runner would have dropped, with a short error.
func TestValidateTraceParent(t *testing.T) {
	b := batch.Batch{Service: "s", ID: "b", Payload: []byte("p"), TraceParent: traceParent}
	require.NoError(t, b.Validate())
	for name, s := range badTraceParents() {
		if b.TraceParent = s; s == "" {
			continue
		}
		var inputErr *batch.InputError
		require.ErrorAs(t, b.Validate(), &inputErr, name)
		assert.Equal(t, "TraceParent", inputErr.Field)
		assert.Less(t, len(inputErr.Error()), 300, name)
	}
}

func FuzzValidTraceParent(f *testing.F) {
	f.Add(traceParent)
	for _, s := range badTraceParents() {
		f.Add(s)
	}
	form := regexp.MustCompile(`\A00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}\z`)
	f.Fuzz(func(t *testing.T, s string) {
		m := form.FindStringSubmatch(s)
		want := m != nil && strings.Trim(m[1], "0") != "" && strings.Trim(m[2], "0") != ""
		assert.Equal(t, want, batch.ValidTraceParent(s), "%q", s)
	})
}
