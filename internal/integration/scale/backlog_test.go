package scale

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// maxRatio is how much slower a round may be with a long backlog or history. Above it the
// benchmark prints a warning and does not fail, because with a backlog larger than the memory it
// measures the machine.
const maxRatio = 1.5

// roundLanes is the number of lanes, and of batches, in a round.
const roundLanes = 500

// backlogCase is a schema with some backlog and some history.
type backlogCase struct {
	name           string
	waiting, final int

	db         *sql.DB
	st         *postgres.Store
	addedCount int
	callTimes  map[string][]time.Duration
}

// A claim round and a scan for lanes cost the same with a backlog or a history of
// -scale.rows as with -scale.small (docs/design.md#promise-9-cost).
func BenchmarkBacklog(b *testing.B) {
	db := newCluster(b)
	places := []*backlogCase{
		{name: "short", waiting: flags.smallRows},
		{name: "backlog", waiting: flags.rows},
		{name: "history", waiting: flags.smallRows, final: flags.rows},
	}
	for _, p := range places {
		p.st, p.callTimes = newStore(b, db, p.name), map[string][]time.Duration{}
		fill(b, db, p.name, flags.lanes, p.waiting, p.final)
	}
	// The warm-up reads every lane once after loading. Then the data is as in production: in
	// memory, as far as it fits.
	warm := flags.lanes / roundLanes
	for range b.N {
		for round := range warm + flags.rounds {
			for i := range places {
				p := places[(i+round)%len(places)] // no place is always the first
				collectGarbage()
				p.measureRound(b, round)
			}
			if round == warm-1 {
				for _, p := range places {
					clear(p.callTimes)
				}
			}
		}
	}
	var table strings.Builder // benchmarks cut off the log after some lines
	for _, part := range []string{"claim", "payloads", "accepted", "committed", "lanes", "lane", "add", "round"} {
		short := median(places[0].callTimes[part])
		for _, p := range places {
			took := median(p.callTimes[part])
			ratio := float64(took) / float64(short)
			fmt.Fprintf(&table, "\n%-10s %-8s %8.2f ms  %.2f", part, p.name, milliseconds(took), ratio)
			switch part {
			case "round", "lanes", "lane", "add":
				b.ReportMetric(ratio, p.name+"-"+part+"-ratio")
				if ratio > maxRatio {
					fmt.Fprintf(&table, "  more than %.1f", maxRatio)
				}
			}
		}
	}
	b.Log(table.String())
}

func laneName(i int) batch.ServiceID { return batch.ServiceID(fmt.Sprintf("lane%06d", i)) }

// measureRound takes the first batches of lanes, loads their payloads, records them as accepted
// and committed, and adds as many again.
func (p *backlogCase) measureRound(b *testing.B, measureRound int) {
	ctx := b.Context()
	part := func(name string, do func()) {
		start := time.Now()
		do()
		p.callTimes[name] = append(p.callTimes[name], time.Since(start))
	}
	q := store.ClaimQuery{Limit: roundLanes, Window: 1, TTL: time.Minute}
	for i := range min(roundLanes, flags.lanes) {
		// The lanes are far apart in the order of names, and each round uses others.
		q.Lanes = append(q.Lanes, laneName((i*(flags.lanes/roundLanes)+measureRound)%flags.lanes))
	}
	var refs []store.Ref
	var outcomes []store.Outcome
	start := time.Now()
	part("claim", func() {
		got, err := p.st.Claim(ctx, q, pickFront)
		require.NoError(b, err)
		for _, r := range got.Runs {
			for _, c := range r.Batches {
				refs = append(refs, c.Ref)
				outcomes = append(outcomes, store.Outcome{Ref: c.Ref, Version: c.Version, Finding: store.Accepted, By: batch.BySubmitter})
			}
		}
		require.Len(b, refs, len(q.Lanes))
	})
	part("payloads", func() {
		_, err := p.st.Payloads(ctx, refs)
		require.NoError(b, err)
	})
	record := func() {
		applied, err := p.st.Record(ctx, outcomes)
		require.NoError(b, err)
		for _, a := range applied {
			require.Equal(b, store.Written, a.Result)
		}
	}
	part("accepted", record)
	for i := range outcomes {
		outcomes[i].Version++
		outcomes[i].Finding, outcomes[i].By = store.IsCommitted, batch.ByMonitor
	}
	part("committed", record)
	p.callTimes["round"] = append(p.callTimes["round"], time.Since(start))
	part("lanes", func() {
		lanes, err := p.st.Lanes(ctx, store.LanesQuery{Start: true, Limit: 5000})
		require.NoError(b, err)
		require.Len(b, lanes, min(5000, flags.lanes))
	})
	part("lane", func() { readWindow(ctx, b, p.st, q.Lanes[0]) })
	again := make([]batch.Batch, len(q.Lanes))
	for i, s := range q.Lanes {
		p.addedCount++
		sum := sha256.Sum256(fmt.Append(nil, p.name, p.addedCount))
		again[i] = batch.Batch{ID: batch.ID(hex.EncodeToString(sum[:])), Service: s, Payload: []byte{0}}
	}
	part("add", func() { require.NoError(b, p.st.Add(ctx, again...)) })
}

// readWindow reads the window of one lane, and leaves the lane unchanged.
func readWindow(ctx context.Context, b *testing.B, st *postgres.Store, lane batch.ServiceID) {
	seen := 0
	_, err := st.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{lane}, Limit: 1, Window: 1, TTL: time.Minute}, func(l batch.Lane) []batch.Run {
		seen = len(l.Batches)
		return nil
	})
	require.NoError(b, err)
	require.LessOrEqual(b, seen, 1)
}

// pickFront picks the first batch of a lane if it is ready.
func pickFront(l batch.Lane) []batch.Run {
	if len(l.Batches) == 0 || !l.Batches[0].Ready {
		return nil
	}
	return []batch.Run{{0}}
}
