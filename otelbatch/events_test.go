package otelbatch

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
)

func reasonOf(k batch.ErrorKind) error { return &batch.SubmissionError{Kind: k} }

// changedSeries returns the series that do has changed, with the differences.
func changedSeries(t *testing.T, do func(m *Metrics)) map[string]float64 {
	t.Helper()
	b := newMeterBook()
	m, err := NewMetrics(b)
	require.NoError(t, err)
	require.NoError(t, b.collect())
	before := maps.Clone(b.values)
	do(m)
	require.NoError(t, b.collect())
	changed := map[string]float64{}
	for name, v := range b.values {
		if was, there := before[name]; v != was || !there {
			changed[name] = v - before[name]
		}
	}
	return changed
}

// Each kind of event is counted once, in its metric.
func TestEvents(t *testing.T) {
	const second = time.Second
	for name, c := range map[string]struct {
		event batch.Event
		want  map[string]float64
	}{
		"added: the call counts": {batch.Event{Kind: batch.EventAdded, State: batch.Queued}, map[string]float64{}},
		"a first claim": {
			batch.Event{Kind: batch.EventClaimed, Attempt: 1, From: batch.Queued, SinceAdded: 2 * second},
			map[string]float64{"dltbatch.batch.wait.duration": 2},
		},
		"a later claim": {batch.Event{Kind: batch.EventClaimed, Attempt: 2, From: batch.Delayed, SinceAdded: second}, map[string]float64{}},
		"a resend": {
			batch.Event{Kind: batch.EventClaimed, Attempt: 2, From: batch.Unknown, Again: true, SinceAdded: second},
			map[string]float64{"dltbatch.resends": 1},
		},
		"accepted": {
			batch.Event{Kind: batch.EventState, State: batch.Pending, From: batch.Submitting, By: batch.BySubmitter, InRequest: 3, Took: 2 * second},
			map[string]float64{"dltbatch.attempts{dltbatch.result=accepted}": 1, "dltbatch.attempt.duration{dltbatch.result=accepted}": 2},
		},
		"put back": {batch.Event{Kind: batch.EventState, State: batch.Queued, From: batch.Submitting, By: batch.BySubmitter}, map[string]float64{}},
		"busy": {
			batch.Event{Kind: batch.EventState, State: batch.Delayed, From: batch.Submitting, By: batch.BySubmitter, InRequest: 1, Took: second, Err: reasonOf(batch.KindBusy)},
			map[string]float64{"dltbatch.attempts{dltbatch.result=busy}": 1, "dltbatch.attempt.duration{dltbatch.result=busy}": 1},
		},
		"refused": {
			batch.Event{Kind: batch.EventFinal, State: batch.Rejected, From: batch.Submitting, By: batch.BySubmitter, InRequest: 1, Took: second, SinceAdded: 3 * second, Err: reasonOf(batch.KindRejected)},
			map[string]float64{
				"dltbatch.attempts{dltbatch.result=rejected}": 1, "dltbatch.attempt.duration{dltbatch.result=rejected}": 1,
				"dltbatch.batches.final{dltbatch.state=rejected}": 1, "dltbatch.batch.duration{dltbatch.state=rejected}": 3,
			},
		},
		"committed": {
			batch.Event{Kind: batch.EventFinal, State: batch.Committed, From: batch.Pending, By: batch.ByMonitor, SinceAdded: 3 * second, SincePosted: 2 * second},
			map[string]float64{
				"dltbatch.batches.final{dltbatch.state=committed}": 1, "dltbatch.batch.duration{dltbatch.state=committed}": 3,
				"dltbatch.batch.outcome.duration{dltbatch.state=committed}": 2,
			},
		},
		"a doubt": {
			batch.Event{Kind: batch.EventInDoubt, State: batch.Submitting, From: batch.Submitting, By: batch.BySubmitter, InRequest: 1, Took: second, Err: reasonOf(batch.KindDoubt)},
			map[string]float64{"dltbatch.doubts": 1, "dltbatch.attempts{dltbatch.result=doubt}": 1, "dltbatch.attempt.duration{dltbatch.result=doubt}": 1},
		},
		"a doubt that stays": {batch.Event{Kind: batch.EventInDoubt, State: batch.Submitting, From: batch.Submitting, By: batch.ByMonitor}, map[string]float64{}},
		"a doubt that ends, of another": {
			batch.Event{Kind: batch.EventState, State: batch.Unknown, From: batch.Submitting, By: batch.ByMonitor, TakenOver: true},
			map[string]float64{"dltbatch.takeovers": 1, "dltbatch.doubts.resolved{dltbatch.by=monitor,dltbatch.state=unknown}": 1},
		},
		"a decision about what another left": {
			batch.Event{Kind: batch.EventDecision, State: batch.Submitting, From: batch.Submitting, By: batch.ByMonitor, TakenOver: true},
			map[string]float64{"dltbatch.takeovers": 1, "dltbatch.decisions": 1},
		},
		"a decision about what is not taken for long": {
			batch.Event{Kind: batch.EventDecision, State: batch.Delayed, From: batch.Submitting, By: batch.BySubmitter, InRequest: 1, Took: second, Err: reasonOf(batch.KindNotYet)},
			map[string]float64{"dltbatch.decisions": 1, "dltbatch.attempts{dltbatch.result=not_yet}": 1, "dltbatch.attempt.duration{dltbatch.result=not_yet}": 1},
		},
		"a breach with the commit": {
			batch.Event{Kind: batch.EventOrderBreach, State: batch.Committed, From: batch.Submitting, By: batch.ByMonitor, SinceAdded: second},
			map[string]float64{
				"dltbatch.order.breaches": 1, "dltbatch.batches.final{dltbatch.state=committed}": 1, "dltbatch.batch.duration{dltbatch.state=committed}": 1,
				"dltbatch.doubts.resolved{dltbatch.by=monitor,dltbatch.state=committed}": 1,
			},
		},
		"a breach beside another event": {
			batch.Event{Kind: batch.EventOrderBreach, State: batch.Invalid, From: batch.Submitting, By: batch.ByMonitor},
			map[string]float64{"dltbatch.order.breaches": 1},
		},
		"vanished":    {batch.Event{Kind: batch.EventVanished, State: batch.Committed}, map[string]float64{"dltbatch.vanished": 1}},
		"halted":      {batch.Event{Kind: batch.EventHalted, State: batch.Invalid}, map[string]float64{"dltbatch.lanes.halted": 1}},
		"held":        {batch.Event{Kind: batch.EventLaneHeld}, map[string]float64{"dltbatch.lanes.held": 1}},
		"quarantined": {batch.Event{Kind: batch.EventQuarantined, State: batch.Invalid}, map[string]float64{"dltbatch.batches.quarantined": 1}},
		"paused":      {batch.Event{Kind: batch.EventPaused, Err: reasonOf(batch.KindBusy)}, map[string]float64{"dltbatch.pauses{dltbatch.result=busy}": 1}},
		"paused, who knows why": {
			batch.Event{Kind: batch.EventPaused, Err: errors.New("?")}, map[string]float64{"dltbatch.pauses{dltbatch.result=_OTHER}": 1},
		},
		"resumed": {batch.Event{Kind: batch.EventResumed}, map[string]float64{}},
		"trouble": {batch.Event{Kind: batch.EventTrouble, Part: "monitor"}, map[string]float64{"dltbatch.troubles{dltbatch.part=monitor}": 1}},
		"cancelled": {
			batch.Event{Kind: batch.EventOperated, State: batch.Rejected, By: batch.ByOperator, Act: batch.Act{Action: batch.ActionCancel}, SinceAdded: second},
			map[string]float64{"dltbatch.batches.final{dltbatch.state=rejected}": 1, "dltbatch.batch.duration{dltbatch.state=rejected}": 1},
		},
		"decided": {
			batch.Event{Kind: batch.EventOperated, State: batch.Committed, By: batch.ByOperator, Act: batch.Act{Action: batch.ActionDecide}, SinceAdded: second},
			map[string]float64{
				"dltbatch.batches.final{dltbatch.state=committed}": 1, "dltbatch.batch.duration{dltbatch.state=committed}": 1,
				"dltbatch.doubts.resolved{dltbatch.by=operator,dltbatch.state=committed}": 1,
			},
		},
		"decided to send again": {
			batch.Event{Kind: batch.EventOperated, State: batch.Unknown, By: batch.ByOperator, Act: batch.Act{Action: batch.ActionDecide}},
			map[string]float64{"dltbatch.doubts.resolved{dltbatch.by=operator,dltbatch.state=unknown}": 1},
		},
		"acquitted": {batch.Event{Kind: batch.EventOperated, State: batch.Rejected, By: batch.ByOperator, Act: batch.Act{Action: batch.ActionAcquit}}, map[string]float64{}},
	} {
		t.Run(name, func(t *testing.T) {
			event := c.event
			event.Key = batch.Key{Service: "a-lane", ID: "an-id"}
			assert.Equal(t, c.want, changedSeries(t, func(m *Metrics) { m.countEvent(event) }))
		})
	}
}

// Each call is counted in the metrics of its part.
func TestCalls(t *testing.T) {
	for name, c := range map[string]struct {
		call batch.Call
		want map[string]float64
	}{
		"add": {batch.Call{Part: "store", Op: "add", Items: 7}, map[string]float64{
			"dltbatch.batches.added{dltbatch.operation=add}":                                                                            7,
			"dltbatch.store.operation.batches{dltbatch.operation=add}":                                                                  7,
			"dltbatch.store.operation.duration{dltbatch.operation=add}":                                                                 2,
			"messaging.client.operation.duration{messaging.operation.name=add,messaging.operation.type=send,messaging.system=dltbatch}": 2,
		}},
		"add that failed": {batch.Call{Part: "store", Op: "add_tx", Items: 7, Err: batch.ErrConflict}, map[string]float64{
			"dltbatch.store.operation.duration{dltbatch.operation=add_tx,error.type=conflict}":                                                                 2,
			"messaging.client.operation.duration{error.type=conflict,messaging.operation.name=add_tx,messaging.operation.type=send,messaging.system=dltbatch}": 2,
		}},
		"an empty claim": {batch.Call{Part: "store", Op: "claim"}, map[string]float64{
			"dltbatch.claims.empty": 1,
			"dltbatch.store.operation.duration{dltbatch.operation=claim}":                                                                    2,
			"messaging.client.operation.duration{messaging.operation.name=claim,messaging.operation.type=receive,messaging.system=dltbatch}": 2,
		}},
		"prune": {batch.Call{Part: "store", Op: "prune", Items: 9}, map[string]float64{
			"dltbatch.pruned": 9, "dltbatch.store.operation.duration{dltbatch.operation=prune}": 2,
		}},
		"record": {batch.Call{Part: "store", Op: "record", Items: 3}, map[string]float64{
			"dltbatch.store.operation.batches{dltbatch.operation=record}":                                                                    3,
			"dltbatch.store.operation.duration{dltbatch.operation=record}":                                                                   2,
			"messaging.client.operation.duration{messaging.operation.name=record,messaging.operation.type=settle,messaging.system=dltbatch}": 2,
		}},
		"a list of a busy ledger": {batch.Call{Part: "ledger", Op: "submit_list", Items: 20, Err: dlt.ErrBusy}, map[string]float64{
			"dltbatch.request.batches": 20,
			"messaging.client.operation.duration{error.type=busy,messaging.operation.name=submit_list,messaging.operation.type=send,messaging.system=dltbatch}": 2,
		}},
		"a question": {batch.Call{Part: "ledger", Op: "statuses", Items: 20}, map[string]float64{
			"dltbatch.ledger.operation.duration{dltbatch.operation=statuses}": 2,
		}},
		"an operation that nobody knows": {batch.Call{Part: "store", Op: "of tomorrow", Err: errors.New("?")}, map[string]float64{
			"dltbatch.store.operation.duration{dltbatch.operation=_OTHER,error.type=_OTHER}": 2,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c.call.Took = 2 * time.Second
			assert.Equal(t, c.want, changedSeries(t, func(m *Metrics) { m.observeCall(t.Context(), c.call) }))
		})
	}
}

// The list of values of each label has exactly the values that the Runner uses.
func TestLabels(t *testing.T) {
	engine, err := filepath.Glob("../internal/engine/*.go")
	require.NoError(t, err)
	events, err := filepath.Glob("../internal/events/*.go")
	require.NoError(t, err)
	named := map[string]bool{}
	for _, file := range slices.Concat(engine, events) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`(?:[tT]rouble\(|part\(|readUntilDone\(ctx, )"([a-z ]+)"`).FindAllStringSubmatch(string(text), -1) {
			named[found[1]] = true
		}
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(named)), troubleParts.values, "parts that may be in trouble")

	text, err := os.ReadFile("../batch/call.go")
	require.NoError(t, err)
	doc := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "//", " ")), " ")
	for of, l := range map[string]label{"ledger": ledgerOps, "store": storeOps} {
		list := regexp.MustCompile(`Of the ` + of + `: ([a-z_, ]+)\.`).FindStringSubmatch(doc)
		require.Len(t, list, 2)
		assert.Equal(t, slices.DeleteFunc(strings.Split(list[1], ", "), func(op string) bool { return strings.HasPrefix(op, "submit") }), l.values)
	}

	for _, k := range []error{dlt.ErrRejected, dlt.ErrBusy, dlt.ErrUnavailable, dlt.ErrMisconfigured, errors.New("?")} {
		assert.Contains(t, ledgerErrors.values, ledgerError(k))
		assert.Contains(t, results.values, ledgerError(k))
	}
	assert.Equal(t, "moved_on", storeError(&batch.MovedOnError{}))
	assert.Equal(t, "invalid_input", storeError(&batch.InputError{}))
	assert.Equal(t, "unsupported", storeError(fmt.Errorf("list: %w", store.ErrUnsupported)))
}
