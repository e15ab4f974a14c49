package health

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// Attention depends only on Health and the time: each cause is one sentence, and nothing else is
// listed.
func TestAttention(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	works := PartHealth{Condition: ConditionOK, LastSuccess: before(time.Second)}
	fails := func(why error) PartHealth {
		return PartHealth{Condition: ConditionFailing, LastSuccess: before(time.Hour), FailingSince: before(time.Minute), Failures: 3, Err: why}
	}
	down := errors.New("down")
	for name, c := range map[string]struct {
		change func(h *Health)
		want   []Attention
	}{
		"all is well": {func(*Health) {}, nil},
		"what is over, or never ends, is no cause": {func(h *Health) {
			h.Trouble, h.TroubleAt, h.LostEvents, h.DroppedTraces = down, before(time.Minute), []uint64{7}, 3
		}, nil},
		"Run does not run":             {func(h *Health) { *h = Health{} }, []Attention{{PartRun, time.Time{}, "Run does not run"}}},
		"the database was not reached": {func(h *Health) { h.Store = PartHealth{} }, []Attention{{PartDatabase, time.Time{}, "not reached yet"}}},
		"the database fails, and every loop with it": {func(h *Health) { h.Store, h.Loops["queuer"] = fails(down), fails(down) }, []Attention{
			{PartDatabase, before(time.Minute), "has failed for 1m0s: down"},
		}},
		"a loop fails alone": {func(h *Health) { h.Loops["queuer"] = fails(down) }, []Attention{{PartLoops, before(time.Minute), "queuer has failed for 1m0s: down"}}},
		"the ledger is not reached, and nothing is posted": {func(h *Health) {
			h.Ledger, h.Loops["submitter"] = fails(dlt.ErrUnavailable), fails(dlt.ErrUnavailable)
			h.Paused, h.Pauses = true, []Pause{{Ledger: "l", All: true, Since: before(time.Minute), Because: dlt.ErrUnavailable}}
		}, []Attention{{PartLedger, before(time.Minute), "Nothing is posted: the ledger is not reached. For 1m0s: " + dlt.ErrUnavailable.Error()}}},
		"the ledger fails": {func(h *Health) { h.Ledger = fails(down) }, []Attention{{PartLedger, before(time.Minute), "has failed for 1m0s: down"}}},
		"a stream is lost": {func(h *Health) { h.Streams = fails(dlt.ErrStreamLost) }, []Attention{
			{PartStreams, before(time.Minute), "has failed for 1m0s: " + dlt.ErrStreamLost.Error()},
		}},
		"the ledger is busy": {func(h *Health) {
			h.Paused, h.Pauses = true, []Pause{{Ledger: "l", All: true, Since: before(time.Hour)}}
		}, []Attention{
			{PartPosting, before(time.Hour), "Nothing is posted: the ledger is busy. For 1h0m0s"},
		}},
		"the ledger refuses this client": {func(h *Health) {
			h.Paused, h.Pauses = true, []Pause{{Ledger: "l", All: true, Since: before(time.Hour), Because: dlt.ErrMisconfigured}}
		}, []Attention{{PartPosting, before(time.Hour), "Nothing is posted: the ledger refuses this client. For 1h0m0s: " + dlt.ErrMisconfigured.Error()}}},
		"one ledger of two": {func(h *Health) {
			h.Pauses = []Pause{{Ledger: "east", All: true, Since: before(time.Hour), Because: dlt.ErrUnavailable}}
			h.Ledgers = map[string]PartHealth{"east": fails(dlt.ErrUnavailable), "west": works}
		}, []Attention{{PartPosting, before(time.Hour), "Nothing is posted to ledger east: the ledger is not reached. For 1h0m0s: " + dlt.ErrUnavailable.Error()}}},
		"both ledgers, for two reasons": {func(h *Health) {
			h.Paused, h.Pauses = true, []Pause{
				{Ledger: "east", All: true, Since: before(time.Hour)}, {Ledger: "west", All: true, Since: before(time.Minute), Because: dlt.ErrMisconfigured},
			}
		}, []Attention{{PartPosting, before(time.Minute), "Nothing is posted: the ledger refuses this client. For 1m0s: east: the ledger is busy; west: the ledger refuses this client"}}},
		"queries to one ledger of two fail": {func(h *Health) {
			h.Ledgers = map[string]PartHealth{"east": fails(down), "west": works}
		}, []Attention{{PartPosting, before(time.Minute), "ledger east has failed for 1m0s: down"}}},
		"some services": {func(h *Health) {
			for _, s := range []batch.ServiceID{"b", "a", "c", "d", "e", "f", "g"} {
				h.Pauses = append(h.Pauses, Pause{Ledger: "l", Service: s, Since: before(time.Hour)})
			}
			h.HaltedServices, h.HeldServices = []batch.ServiceID{"h"}, []batch.ServiceID{""}
			h.HaltedSince, h.HeldSince = before(2*time.Hour), before(3*time.Hour)
		}, []Attention{
			{PartPosting, before(time.Hour), `"a", "b", "c", "d", "e", and 2 more: nothing is posted, because the ledger is busy, unreachable or refuses this client`},
			{PartPosting, before(2 * time.Hour), `"h": the lane is halted, because the ledger took a batch back again and again`},
			{PartPosting, before(3 * time.Hour), `"": this Run does not serve it`},
		}},
		"a loop stands; one that waits for work does not": {func(h *Health) {
			h.Loops["monitor"], h.Loops["recorder"] = PartHealth{LastSuccess: before(time.Hour)}, PartHealth{LastSuccess: before(time.Hour)}
		}, []Attention{{PartLoops, before(time.Hour), "monitor has done nothing for 1h0m0s"}}},
		"for a person": {func(h *Health) {
			h.Counts.Undecided, h.Counts.Halted, h.Counts.UndecidedSince, h.Counts.HaltedSince = 4, 2, before(time.Hour), before(time.Minute)
		}, []Attention{
			{PartBatches, before(time.Hour), "A person has to decide about 4 batches."},
			{PartBatches, before(time.Minute), "2 lanes are halted until a person releases them."},
		}},
		"refused orders": {func(h *Health) { h.Counts.RefusedOrders, h.Counts.RefusedSince = 2, before(time.Hour) }, []Attention{{PartBatches, before(time.Hour), "2 orders were refused alone within a day."}}},
		"batches wait":   {func(h *Health) { h.Counts.Waiting, h.Counts.StandingSince = 9, before(standstillLimit) }, nil},
		"batches wait for long, and none moves": {func(h *Health) { h.Counts.Waiting, h.Counts.StandingSince = 9, before(standstillLimit+time.Second) }, []Attention{
			{PartBatches, before(standstillLimit + time.Second), "no batch has moved for 10m1s, and so many wait: 9"},
		}},
		"nobody counts": {func(h *Health) { h.Counts.Age = staleCountsAge }, []Attention{
			{PartBatches, before(staleCountsAge + 5*time.Second), "Nobody counts the open batches. For 10m5s"},
		}},
		"the store keeps no counts": {func(h *Health) { h.Counts = Counts{} }, nil},
		"the store warns":           {func(h *Health) { h.Warnings, h.WarningsSince = []error{down}, before(time.Hour) }, []Attention{{PartWarnings, before(time.Hour), "The database needs care. down"}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := Health{Running: true, Store: works, Ledger: works, Streams: works, Loops: map[string]PartHealth{"queuer": works, "monitor": works}}
			h.Counts.ReadAt = before(5 * time.Second)
			c.change(&h)
			assert.Equal(t, c.want, h.Attention(now))
		})
	}
}
