package events

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// Each kind of event has the level that is documented.
func TestLevels(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	documented := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (ERROR|WARN|INFO|DEBUG) \| (.*) \|$`).FindAllStringSubmatch(string(text), -1) {
		for _, word := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[2], -1) {
			documented[word[1]] += row[1] + " "
		}
	}
	for line, levels := range map[string]string{"started": "INFO ", "stopping": "INFO ", "stopped": "ERROR INFO "} {
		assert.Equal(t, levels, documented[line], "the engine writes it")
		delete(documented, line)
	}

	have := map[string]string{}
	for _, kind := range []batch.EventKind{
		batch.EventAdded, batch.EventClaimed, batch.EventState, batch.EventInDoubt, batch.EventDecision,
		batch.EventOrderBreach, batch.EventVanished, batch.EventResumed, batch.EventHalted, batch.EventQuarantined,
		batch.EventOperated, batch.EventLaneHeld, batch.EventTrouble,
	} {
		have[string(kind)] = levelOf(batch.Event{Kind: kind, Err: errors.New("no")}).String() + " "
	}
	for _, state := range []batch.State{batch.Rejected, batch.Committed} {
		have[string(batch.EventFinal)] += levelOf(batch.Event{Kind: batch.EventFinal, State: state}).String() + " "
	}
	assert.Equal(t, slog.LevelInfo, levelOf(batch.Event{Kind: batch.EventFinal, State: batch.Invalid}))
	for _, why := range []error{dlt.ErrMisconfigured, dlt.ErrUnavailable, dlt.ErrBusy} {
		err := &answerError{submissionErr: &batch.SubmissionError{Kind: dlt.Kind(why)}, err: why}
		have[string(batch.EventPaused)] += levelOf(batch.Event{Kind: batch.EventPaused, Err: err}).String() + " "
	}
	assert.Equal(t, documented, have)
	for _, kind := range []batch.EventKind{batch.EventTrouble, batch.EventLaneHeld} {
		err := fmt.Errorf("queuer: %w", &loop.PanicError{Value: "boom"})
		assert.Equal(t, slog.LevelError, levelOf(batch.Event{Kind: kind, Err: err}), "a panic")
	}
}

// Lines that differ only in numbers have one topic.
func TestTopics(t *testing.T) {
	trouble := func(where, text string) topic {
		return topicOf(batch.Event{Kind: batch.EventTrouble, Part: where, Err: errors.New(text)})
	}
	same := trouble("monitor", "resolve s/b17: dial tcp 127.0.0.1:5432: connection refused")
	assert.Equal(t, same, trouble("monitor", "resolve s/b9: dial tcp 127.0.0.1:33: connection refused"))
	assert.NotEqual(t, same, trouble("recorder", "resolve s/b17: dial tcp 127.0.0.1:5432: connection refused"))
	assert.NotEqual(t, same, trouble("monitor", "resolve s/b17: dial tcp 127.0.0.1:5432: no route"))
	a := topicOf(batch.Event{Kind: batch.EventLaneHeld, Key: batch.Key{Service: "a1"}})
	assert.NotEqual(t, a, topicOf(batch.Event{Kind: batch.EventLaneHeld, Key: batch.Key{Service: "a2"}}), "each lane is its own")
	assert.NotEqual(t, a, topicOf(batch.Event{Kind: batch.EventPaused, Key: batch.Key{Service: "a1"}}))
}
