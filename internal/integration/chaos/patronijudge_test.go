package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// lossTally counts what happened to the acknowledged batches in one mode.
type lossTally struct {
	added    int
	lost     int // missing in the database
	known    int // lost, and the worker that acknowledged them reported lost commits
	unknown  int // lost, and that worker was killed before it could report it
	doubled  int // executed twice
	byOthers int // those of doubled that another worker, still alive, had posted before
}

// checkResult compares the acknowledged batches with the database, the ledger and the workers'
// reports. Each living worker reports what it has lost. No batch that a living worker has posted
// is posted again, if that worker posts it itself, or if everything is paused until a person has
// looked. With synchronous_mode nothing is lost or executed twice, and no worker reports a loss.
func (p *patroniCluster) checkResult(w *world, acked []ackedAdd, f *faultInjector) {
	var r report
	require.NoError(w.t, w.controlLedger("GET", "/report", &r))
	there := w.storedBatches()
	said := w.lossReports()
	var n lossTally
	for _, a := range acked {
		for _, b := range a.batches {
			n.added++
			if there[b.ID] {
				continue
			}
			n.lost++
			switch {
			case said[a.ackedBy].After(a.ended):
				n.known++
			case w.wasKilled(a.ackedBy):
				n.unknown++
			default:
				w.t.Errorf("%s/%s was acknowledged by %s, and is lost, and %[3]s has not said so", b.Service, b.ID, a.ackedBy)
			}
		}
	}
	times := map[batch.ID]int{}
	for _, e := range r.Executed {
		times[e.ID]++
	}
	posted := map[batch.ID][]acceptedPost{}
	for _, x := range r.Posted {
		posted[x.ID] = append(posted[x.ID], x)
	}
	for id, k := range times {
		if k < 2 {
			continue
		}
		n.doubled++
		all := posted[id]
		last, before := all[len(all)-1], all[:len(all)-1]
		own, alive := true, false
		for _, x := range before {
			own = own && x.Worker == last.Worker
			alive = alive || !w.wasKilledBefore(x.Worker, last.At)
		}
		switch {
		case own:
			w.t.Errorf("%s was executed %d times, and only %s has posted it", id, k, last.Worker)
		case alive:
			n.byOthers++
		}
	}
	reports := 0
	for _, at := range said {
		if !at.IsZero() {
			reports++
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.synchronous {
		assert.Zero(w.t, n.lost)
		assert.Zero(w.t, n.doubled)
		assert.Zero(w.t, reports, "workers that say that commits are lost")
	}
	if p.pauses {
		assert.Zero(w.t, n.byOthers, "executed twice, the first time by a worker that was alive")
	}
	var primary []string
	for _, k := range patroniFaultKinds {
		primary = append(primary, fmt.Sprintf("%d %s", f.count[k.name], k.name))
	}
	others := 0
	for name, k := range f.count {
		if !strings.Contains(name, "primary") {
			others += k
		}
	}
	w.t.Logf("| mode | faults of the primary | failovers | other faults | acknowledged | executed | lost | reported | of killed workers | doubled | of living workers | paused and resumed |")
	w.t.Logf("| %s | %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d (%d batches ended) |", p.mode, strings.Join(primary, ", "), p.failoverCount, others,
		n.added, len(times), n.lost, n.known, n.unknown, n.doubled, n.byOthers, p.resumeCount, p.endedCount)
}

// storedBatches returns the ids of all batches in the database.
func (w *world) storedBatches() map[batch.ID]bool {
	st, there := w.store(), map[batch.ID]bool{}
	var after store.Cursor
	for {
		records, next, err := st.List(w.t.Context(), store.ListQuery{Limit: 1000, After: after})
		require.NoError(w.t, err)
		for _, r := range records {
			there[r.ID] = true
		}
		if after = next; next == "" {
			return there
		}
	}
}

// lossReports returns when each worker last reported lost commits.
func (w *world) lossReports() map[string]time.Time {
	files, err := filepath.Glob(filepath.Join(w.dir, "*.audit"))
	require.NoError(w.t, err)
	said := map[string]time.Time{}
	for _, name := range files {
		file, err := os.Open(name)
		require.NoError(w.t, err)
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var e auditEntry
			require.NoError(w.t, json.Unmarshal(lines.Bytes(), &e))
			if e.Op == "lost" {
				said[strings.TrimSuffix(filepath.Base(name), ".audit")] = e.At
				w.t.Logf("%s at %s: %s", filepath.Base(name), e.At.Format(time.TimeOnly), e.Text)
			}
		}
		require.NoError(w.t, lines.Err())
		require.NoError(w.t, file.Close())
	}
	return said
}
