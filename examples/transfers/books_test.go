package main

import (
	"io"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

// prove returns an error for books that differ from the transfers.
func TestProve(t *testing.T) {
	all := drawTransfers(config{transfers: 20, parties: 4, poisonInterval: 10})
	require.Equal(t, 2, countPoisonous(all))
	bad := slices.IndexFunc(all, func(x transfer) bool { return x.Poison != "" })
	good := slices.IndexFunc(all, func(x transfer) bool { return x.Poison == "" })
	begin := time.Now()
	for name, c := range map[string]struct {
		bend  func(records map[order.ID]order.Record, journal *[]cantontest.Entry, books map[string]int64)
		wrong string
	}{
		"as promised": {},
		"twice": {func(_ map[order.ID]order.Record, j *[]cantontest.Entry, _ map[string]int64) {
			*j = append(*j, cantontest.Entry{Kind: cantontest.Executed, Transfers: []cantontest.Transfer{all[good].Transfer}})
		}, "took effect 2 times"},
		"never": {func(_ map[order.ID]order.Record, j *[]cantontest.Entry, _ map[string]int64) {
			*j = slices.DeleteFunc(*j, func(e cantontest.Entry) bool {
				return e.Kind == cantontest.Executed && e.Transfers[0].Note == all[good].Note
			})
		}, "took effect 0 times"},
		"nobody's": {func(_ map[order.ID]order.Record, j *[]cantontest.Entry, _ map[string]int64) {
			*j = append(*j, cantontest.Entry{Kind: cantontest.Executed, Transfers: []cantontest.Transfer{{Note: "x"}}})
		}, "19 transfers took effect, and 18 were asked for"},
		"poison": {func(_ map[order.ID]order.Record, j *[]cantontest.Entry, _ map[string]int64) {
			*j = append(*j, cantontest.Entry{Kind: cantontest.Executed, Transfers: []cantontest.Transfer{all[bad].Transfer}})
		}, "is poisonous and took effect 1 times"},
		"quarantined by inference": {func(_ map[order.ID]order.Record, j *[]cantontest.Entry, _ map[string]int64) {
			for i, e := range *j {
				if e.Kind == cantontest.Refused && e.Transfers[0].Note == all[bad].Note {
					(*j)[i].Transfers = []cantontest.Transfer{all[bad].Transfer, all[good].Transfer}
				}
			}
		}, "never refused alone"},
		"a good one quarantined": {func(r map[order.ID]order.Record, _ *[]cantontest.Entry, _ map[string]int64) {
			rec := r[all[good].id]
			rec.State, rec.Error = order.Quarantined, &batch.SubmissionError{}
			r[rec.ID] = rec
		}, "is quarantined, want confirmed"},
		"a bad one confirmed": {func(r map[order.ID]order.Record, _ *[]cantontest.Entry, _ map[string]int64) {
			r[all[bad].id] = order.Record{ID: all[bad].id, State: order.Confirmed}
		}, "is poisonous and confirmed"},
		"a record is missing": {func(r map[order.ID]order.Record, _ *[]cantontest.Entry, _ map[string]int64) {
			delete(r, all[good].id)
		}, "want confirmed"},
		"money": {func(_ map[order.ID]order.Record, _ *[]cantontest.Entry, b map[string]int64) {
			b[partyName(0)]++
		}, "party-00::1220 has"},
	} {
		t.Run(name, func(t *testing.T) {
			records, books := map[order.ID]order.Record{}, map[string]int64{}
			for i := range 4 {
				books[partyName(i)] = openingBalance
			}
			var journal []cantontest.Entry
			for _, x := range all {
				rec := order.Record{ID: x.id, State: order.Confirmed, CreatedAt: begin, FinalAt: begin.Add(time.Second)}
				e := cantontest.Entry{Kind: cantontest.Executed, CommandID: string(x.id), Transfers: []cantontest.Transfer{x.Transfer}}
				if x.Poison != "" {
					e.Kind = cantontest.Refused
					rec.State, rec.Error = order.Quarantined, &batch.SubmissionError{Message: "poisoned"}
				} else {
					books[string(x.from)] -= x.Amount
					books[x.To] += x.Amount
				}
				records[x.id] = rec
				journal = append(journal, cantontest.Entry{Kind: cantontest.Posted, CommandID: string(x.id)}, e)
			}
			books = maps.Clone(books)
			if c.bend != nil {
				c.bend(records, &journal, books)
			}
			err := prove(io.Discard, all, records, journal, books)
			if c.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "THE BOOKS DO NOT AGREE")
			require.ErrorContains(t, err, c.wrong)
		})
	}
}
