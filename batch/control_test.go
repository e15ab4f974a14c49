package batch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

func TestBy(t *testing.T) {
	for _, actor := range []string{"ann", "日本", strings.Repeat("x", batch.MaxActorLen)} {
		assert.NoError(t, batch.By{Actor: actor, Reason: "\x00" + strings.Repeat("y", 1<<20)}.Validate(), "a reason is cut, not refused")
	}
	for _, actor := range []string{"", "a\x00", "a\n", "\xff", strings.Repeat("x", batch.MaxActorLen+1)} {
		var inputErr *batch.InputError
		require.ErrorAs(t, batch.By{Actor: actor, Reason: "r"}.Validate(), &inputErr)
		assert.Equal(t, "By.Actor", inputErr.Field)
	}
}

func TestScope(t *testing.T) {
	for _, s := range []batch.Scope{batch.Everything(), batch.Only(""), batch.Only("c::s")} {
		assert.NoError(t, s.Validate())
	}
	for _, s := range []batch.Scope{{All: true, Service: "s"}, batch.Only("\n"), batch.Only(batch.ServiceID(strings.Repeat("x", batch.MaxServiceLen+1)))} {
		assert.ErrorIs(t, s.Validate(), batch.ErrInvalidInput, "%v", s)
	}
	assert.Equal(t, "everything", batch.Everything().String())
	assert.Equal(t, `service ""`, batch.Only("").String())
}

// The values are stored, and so are their meanings.
func TestPolicies(t *testing.T) {
	for i, name := range []string{"default", "continue", "halt", "quarantine"} {
		assert.True(t, batch.Policy(i).Known())
		assert.Equal(t, name, batch.Policy(i).String())
	}
	assert.False(t, batch.Policy(4).Known())
	assert.Equal(t, "policy(4)", batch.Policy(4).String())
}

func TestControl(t *testing.T) {
	at := time.Unix(1, 0)
	for _, c := range []struct {
		control              batch.Control
		isClosed, isInEffect bool
	}{
		{batch.Control{}, false, false},
		{batch.Control{Policy: batch.PolicyHalt}, false, true},
		{batch.Control{PausedAt: at}, true, true},
		{batch.Control{HaltedAt: at}, true, true},
	} {
		assert.Equal(t, c.isClosed, c.control.Closed())
		assert.Equal(t, c.isInEffect, c.control.InEffect())
	}
}

func TestReportFit(t *testing.T) {
	for given, kept := range map[string]string{
		"":                               "",
		"submit":                         "submit",
		"http://node:8008/batches":       "http://node:8008/batches",
		"http://node:8008":               "http://node:8008",
		"http://me:secret@node:8008/b":   "http://node:8008/b",
		"http://me:secret@node":          "http://node",
		"http://me:s@cret@node/a@b":      "http://node/a@b",
		"me:secret@node:8008/b":          "node:8008/b",
		"http://node/b?token=secret":     "http://node/b",
		"http://node/b#secret":           "http://node/b",
		"http://node?u=http://x@secret/": "http://node",
	} {
		assert.Equal(t, kept, batch.Report{Endpoint: given}.Fit().Endpoint, given)
	}
	at := time.Date(2030, 1, 1, 0, 0, 0, 1234567, time.FixedZone("somewhere", 3600))
	r := batch.Report{At: at, Took: 1234567, Text: "a\x00b", Attempt: 7, Code: -3, StatusCode: 500}.Fit()
	assert.Equal(t, batch.Report{
		At: at.UTC().Truncate(time.Microsecond), Took: 1234 * time.Microsecond, Text: "a\ufffdb", Attempt: 7, Code: -3, StatusCode: 500,
	}, r)
	assert.Equal(t, r, r.Fit())
	assert.Zero(t, batch.Report{Took: -1}.Fit().Took)
}
