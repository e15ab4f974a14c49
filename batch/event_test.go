package batch_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
)

// An event prints as one line with what happened, and has the same fields in a log.
func TestEventsAsText(t *testing.T) {
	key := batch.Key{Service: "alice", ID: "4711"}
	for want, e := range map[string]batch.Event{
		"":               {},
		"added batch=b1": {Kind: batch.EventAdded, Key: batch.Key{ID: "b1"}, At: time.Now(), Instance: "i"},
		"final service=alice batch=4711 attempt=1 state=committed": {
			Kind: batch.EventFinal, Key: key, Attempt: 1, State: batch.Committed, From: batch.Pending, SinceAdded: time.Second,
		},
		"in_doubt service=alice batch=4711 attempt=2 state=submitting status_code=502 code=31 endpoint=http://node:8008 took=1.5s error=\"doubt: cut\\noff\"": {
			Kind: batch.EventInDoubt, Key: key, Attempt: 2, State: batch.Submitting, StatusCode: 502, Code: 31, Endpoint: "http://node:8008",
			InRequest: 1, Took: 1500 * time.Millisecond, Err: errors.New("doubt: cut\noff"),
		},
		`paused ledger=sawtooth error="busy = full"`: {Kind: batch.EventPaused, Ledger: "sawtooth", Err: errors.New("busy = full")},
		`operated service=alice action=pause scope="service \"alice\"" actor=mike reason="he \"must\""`: {
			Kind: batch.EventOperated, Key: batch.Key{Service: "alice"},
			Act: batch.Act{By: batch.By{Actor: "mike", Reason: `he "must"`}, Action: batch.ActionPause, Scope: batch.Only("alice")},
		},
	} {
		assert.Equal(t, want, fmt.Sprintf("%v", e))
	}
	var line bytes.Buffer
	slog.New(slog.NewTextHandler(&line, nil)).InfoContext(t.Context(), "seen", slog.Any("event", batch.Event{Kind: batch.EventFinal, Key: key, State: batch.Rejected, Err: errors.New("no funds")}))
	assert.Contains(t, line.String(), ` msg=seen event.kind=final event.service=alice event.batch=4711 event.state=rejected event.error="no funds"`)
	long := batch.Event{Kind: batch.EventTrouble, Err: errors.New(strings.Repeat("x", 1<<20))}
	assert.Less(t, len(fmt.Sprint(long)), batch.MaxErrorText+100)
}
