package dltbatch_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// logLine is a line of the log.
type logLine map[string]any

func (e logLine) timestamp(t *testing.T) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, e["time"].(string))
	require.NoError(t, err)
	return at
}

// lineLog is a log whose lines can be read one by one.
type lineLog struct{ logBuffer }

func (j *lineLog) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(&j.logBuffer, &slog.HandlerOptions{Level: level}))
}

// lines returns the lines whose message is one of messages, or all lines if there are none.
func (j *lineLog) lines(t *testing.T, messages ...string) (found []logLine) {
	t.Helper()
	for text := range strings.SplitSeq(strings.TrimSpace(j.String()), "\n") {
		if text == "" {
			continue
		}
		var e logLine
		require.NoError(t, json.Unmarshal([]byte(text), &e))
		if len(messages) == 0 || slices.Contains(messages, e["msg"].(string)) {
			found = append(found, e)
		}
	}
	return found
}

// A Run without failures writes three lines, and logs the options that differ from their defaults.
func TestTheLogOfAGoodDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lineLog{}
		r := newRunner(t, memory.New(), ledgermem.New(nil), &dltbatch.Options{
			Logger: log.logger(slog.LevelInfo), Instance: "here", PollInterval: 2 * time.Second, Pool: 7,
		})
		stop := startRun(t, r)
		addToLanes(t, r, 50)
		waitIdle(t, r)
		time.Sleep(time.Hour)
		require.NoError(t, stop())
		lines := log.lines(t)
		require.Len(t, lines, 3)
		for _, l := range lines {
			assert.Equal(t, "INFO", l["level"])
			assert.Equal(t, "here", l["instance"])
			delete(l, "time")
			delete(l, "level")
			delete(l, "instance")
		}
		version := lines[0]["version"]
		assert.NotEmpty(t, version)
		assert.Equal(t, []logLine{
			{
				"msg": "started", "version": version, "store": "*memory.Store", "ledger": "memory", "strategy": "serial", "window": 1.0,
				"options": map[string]any{"PollInterval": "2s", "Pool": 7.0},
			},
			{"msg": "stopping", "under_way": 0.0},
			{"msg": "stopped", "took": "0s", "put_back": 0.0, "unfinished": 0.0},
		}, lines)
	})
}

// The log has one line about a batch that ended badly, with the reason. Log, record and
// explanation each give a fact once.
func TestTheLogOfARefusedBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, st := &lineLog{}, memory.New()
		r := newRunner(t, st, answers400Ledger{ledgermem.New(nil)}, &dltbatch.Options{Logger: log.logger(slog.LevelInfo)})
		stop := startRun(t, r)
		b := newBatch("s", "b")
		require.NoError(t, r.Add(t.Context(), b))
		rec, err := r.Await(t.Context(), b.Key())
		require.NoError(t, err)
		require.NoError(t, stop())
		lines := log.lines(t, "final")
		require.Len(t, lines, 1)
		assert.Equal(t, "b", lines[0]["batch"])
		assert.Equal(t, "rejected", lines[0]["state"])
		assert.Equal(t, "rejected: submit: HTTP 400: bad nonce", lines[0]["error"])
		assert.Equal(t, "submit: HTTP 400: bad nonce", rec.Error.Message)
		e, err := r.Explain(t.Context(), b.Key())
		require.NoError(t, err)
		assert.Contains(t, e.Text, "(submit: HTTP 400: bad nonce)")
		assert.Equal(t, 1, strings.Count(e.Text, "rejected"), e.Text)
	})
}

// answers400Ledger is a ledger that refuses every batch with HTTP status 400.
type answers400Ledger struct{ *ledgermem.Ledger }

func (answers400Ledger) Submit(context.Context, batch.Attempt) error {
	return &dlt.Error{Op: "submit", StatusCode: 400, Message: "bad nonce", Kind: dlt.ErrRejected}
}

// No log line has an empty attribute, at any level.
func TestTheLogHasNoEmptyAttributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lineLog{}
		faults := ledgermem.Faults{Seed: 7, Busy: 0.1, Unavailable: 0.1, Misconfigured: 0.05, LostRequest: 0.1, LostReply: 0.1}
		st := outageStore{memory.New(), &fault{}}
		r := newRunner(t, st, ledgermem.New(&ledgermem.Options{Fault: faults.Fault}), &dltbatch.Options{Logger: log.logger(slog.LevelDebug - 10)})
		c, err := r.Pause(t.Context(), batch.Everything(), batch.By{Actor: "ada"})
		require.NoError(t, err)
		stop := startRun(t, r)
		addToLanes(t, r, 50)
		_, err = r.Resume(t.Context(), c, somebody)
		require.NoError(t, err)
		waitIdle(t, r)
		st.setFault(errDown, false)
		time.Sleep(3 * time.Minute)
		st.setFault(nil, false)
		require.NoError(t, stop())
		kinds := map[string]int{}
		for _, l := range log.lines(t) {
			kinds[l["msg"].(string)]++
			for name, v := range l {
				if !slices.Contains([]string{"under_way", "took", "put_back", "unfinished"}, name) {
					assert.NotContains(t, []any{"", 0.0, nil}, v, "%s of %v", name, l)
				}
			}
		}
		for _, kind := range []string{"added", "claimed", "state", "final", "paused", "resumed", "operated", "trouble", "in_doubt"} {
			assert.Positive(t, kinds[kind], kind)
		}
	})
}

// When the database fails, each part of the Runner logs that at once, then once a minute, and once
// when the failure is over.
func TestTroublesAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const minutes = 10
		log, seen := &lineLog{}, &eventRecorder{}
		st := outageStore{noHints{memory.New()}, &fault{}} // each loop calls this store often, even while idle
		r := newRunner(t, st, ledgermem.New(nil), &dltbatch.Options{Logger: log.logger(slog.LevelInfo), Observer: seen})
		stop := startRun(t, r)
		time.Sleep(time.Minute)
		began := time.Now()
		st.setFault(errDown, false)
		time.Sleep(minutes*time.Minute - time.Second)
		st.setFault(nil, false)
		time.Sleep(5 * time.Minute)
		require.NoError(t, stop())

		byError := map[string][]logLine{}
		for _, l := range log.lines(t, "trouble") {
			byError[l["error"].(string)] = append(byError[l["error"].(string)], l)
		}
		require.NotEmpty(t, byError)
		happened, written := len(seen.ofKind(batch.EventTrouble)), 0
		for text, lines := range byError {
			assert.Contains(t, text, "connection refused")
			last := len(lines) - 1
			assert.InDelta(t, minutes+1, len(lines), 1, "%s: one a minute, and one when it is over", text)
			assert.NotContains(t, lines[0], "times")
			assert.Less(t, lines[0].timestamp(t).Sub(began), 3*time.Second, "the first at once")
			sum := 1
			for i, l := range lines[1:last] {
				assert.Equal(t, "WARN", l["level"])
				assert.NotContains(t, l, "over")
				assert.InDelta(t, time.Minute, l.timestamp(t).Sub(lines[i].timestamp(t)), float64(time.Second))
				sum += int(l["times"].(float64))
			}
			assert.Equal(t, "INFO", lines[last]["level"])
			assert.Equal(t, true, lines[last]["over"])
			assert.EqualValues(t, sum, lines[last]["times"], "all, at the end")
			written += sum
		}
		assert.Equal(t, happened, written, "each trouble is counted")
		assert.Greater(t, happened, 10*len(byError)*minutes, "and there were many")
	})
}

// At level Debug each repetition of a trouble is a line.
func TestTheLogHasEachRepetitionAtDebug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, seen := &lineLog{}, &eventRecorder{}
		st := outageStore{memory.New(), &fault{}}
		r := newRunner(t, st, ledgermem.New(nil), &dltbatch.Options{Logger: log.logger(slog.LevelDebug), Observer: seen})
		stop := startRun(t, r)
		st.setFault(errDown, false)
		time.Sleep(90 * time.Second)
		st.setFault(nil, false)
		require.NoError(t, stop())
		events := 0
		for _, l := range log.lines(t, "trouble") {
			if l["times"] == nil {
				events++
			}
		}
		assert.Len(t, seen.ofKind(batch.EventTrouble), events)
	})
}

// The log level of a pause is INFO for a busy ledger, WARN for one that cannot be reached, and
// ERROR for one that refuses this client.
func TestTheLogOfPauses(t *testing.T) {
	for want, kind := range map[string]error{"INFO": dlt.ErrBusy, "WARN": dlt.ErrUnavailable, "ERROR": dlt.ErrMisconfigured} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &lineLog{}
				r := newRunner(t, memory.New(), newFailingSubmitLedger(&dlt.Error{Op: "submit", Kind: kind, StatusCode: 503, Endpoint: "http://node"}, 10), &dltbatch.Options{
					Logger: log.logger(slog.LevelDebug),
				})
				stop := startRun(t, r)
				addToLanes(t, r, 1)
				waitIdle(t, r)
				require.NoError(t, stop())
				paused, resumed := log.lines(t, "paused"), log.lines(t, "resumed")
				require.Len(t, paused, 1)
				assert.Equal(t, want, paused[0]["level"])
				assert.Equal(t, "http://node", paused[0]["endpoint"])
				assert.EqualValues(t, 503, paused[0]["status_code"])
				require.Len(t, resumed, 1)
				assert.Equal(t, "INFO", resumed[0]["level"])
			})
		})
	}
}

// The lines about a stop tell what is under way, how long the stop took, and what was put back.
func TestTheLogOfAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lineLog{}
		ledger := ledgermem.New(&ledgermem.Options{Latency: 4 * time.Second})
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Strategy: eagerStrategy, Drain: time.Minute, Logger: log.logger(slog.LevelInfo)})
		require.NoError(t, r.Add(t.Context(), newBatch("s", "c0"), newBatch("s", "c1"), newBatch("s", "c2"), newBatch("s", "c3")))
		stop := startRun(t, r)
		time.Sleep(time.Second)
		require.NoError(t, stop())
		begin, end := log.lines(t, "stopping"), log.lines(t, "stopped")
		require.Len(t, begin, 1)
		require.Len(t, end, 1)
		assert.EqualValues(t, 4, begin[0]["under_way"])
		took, err := time.ParseDuration(end[0]["took"].(string))
		require.NoError(t, err)
		assert.InDelta(t, 3*time.Second, took, float64(100*time.Millisecond))
		assert.EqualValues(t, 3, end[0]["put_back"])
		assert.Zero(t, end[0]["unfinished"])
	})
}

// The log names the outcomes that could not be written before the stop had to end, and a Run that
// leaves something under way is logged as an error.
func TestTheLogOfAStopThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lineLog{}
		st := &hangingRecordStore{Store: memory.New()}
		r := newRunner(t, st, ledgermem.New(nil), &dltbatch.Options{Logger: log.logger(slog.LevelInfo), Drain: 20 * time.Second})
		stop := startRun(t, r)
		synctest.Wait()
		st.recordHangs.Store(true)
		addToLanes(t, r, 5)
		time.Sleep(time.Second)
		require.NoError(t, stop())
		end := log.lines(t, "stopped")
		require.Len(t, end, 1)
		assert.EqualValues(t, 5, end[0]["unfinished"])
		assert.Equal(t, "20s", end[0]["took"])
	})
	synctest.Test(t, func(t *testing.T) {
		log := &lineLog{}
		r := newRunner(t, memory.New(), ctxIgnoringLedger{ledgermem.New(nil)}, &dltbatch.Options{Logger: log.logger(slog.LevelInfo), Drain: 20 * time.Second})
		stop := startRun(t, r)
		addToLanes(t, r, 1)
		time.Sleep(time.Second)
		require.ErrorIs(t, stop(), dltbatch.ErrDrain)
		end := log.lines(t, "stopped")
		require.Len(t, end, 1)
		assert.Equal(t, "ERROR", end[0]["level"])
		assert.Contains(t, end[0]["error"], "not at rest")
		assert.EqualValues(t, 1, end[0]["unfinished"])
		time.Sleep(2 * time.Hour) // until the goroutines that Run left behind have ended
	})
}

// The log shows no value of the application's own types.
func TestTheLogShowsNoValueOfTheApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret = "tell-nobody"
		log, app := &lineLog{}, &secretOptions{token: secret}
		r := newRunner(t, secretStore{memory.New(), secret}, ledgermem.New(nil), &dltbatch.Options{
			Logger: log.logger(slog.LevelDebug - 10), Strategy: eagerStrategy, Observer: app, Observers: []batch.Observer{app}, Calls: app, RetryOf: app.Retry,
		})
		stop := startRun(t, r)
		addToLanes(t, r, 3)
		waitIdle(t, r)
		require.NoError(t, stop())
		started := log.lines(t, "started")
		require.Len(t, started, 1)
		assert.Equal(t, "eager", started[0]["strategy"])
		assert.Equal(t, "dltbatch_test.secretStore", started[0]["store"])
		assert.Equal(t, []string{"Calls", "Observer", "Observers", "RetryOf"}, slices.Sorted(maps.Keys(started[0]["options"].(map[string]any))))
		assert.NotContains(t, log.String(), secret)
	})
}

type secretStore struct {
	store.Store
	token string
}

type secretOptions struct{ token string }

func (*secretOptions) Observe(context.Context, batch.Event)           {}
func (*secretOptions) ObserveCall(context.Context, batch.Call)        {}
func (*secretOptions) Retry(batch.ServiceID) (p dltbatch.RetryPolicy) { return p }
