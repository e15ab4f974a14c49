package chaos

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// check compares the ledger, the store and the workers' audits with the acknowledged batches.
func (w *world) check(st *postgres.Store, acked []ackedAdd) {
	var r report
	require.NoError(w.t, w.controlLedger("GET", "/report", &r))
	assert.Empty(w.t, r.Breach, "what the ledger finds wrong")
	want := map[batch.ID]batch.State{}
	for _, a := range acked {
		for _, b := range a.batches {
			want[b.ID] = batch.Committed
			switch {
			case bytes.HasPrefix(b.Payload, []byte(invalidWord)):
				want[b.ID] = batch.Invalid
			case bytes.HasPrefix(b.Payload, []byte(rejectWord)):
				want[b.ID] = batch.Rejected
			}
		}
	}
	for id, n := range w.producer.nonces { // an intent whose nonce another sender has used is never executed
		if _, added := want[id]; added && slices.Contains(r.Used, n) {
			want[id] = batch.Rejected
		}
	}
	w.checkWithdrawals(st, want)
	taken := map[batch.ServiceID]int{}
	for _, u := range r.Used {
		taken[u.Service]++
	}
	late := map[batch.ID]batch.ServiceID{}
	for _, err := range checkExecuted(r.Executed, acked, want) {
		// An intent whose nonce another sender has used is moved behind those that are under way.
		if o := (*orderError)(nil); errors.As(err, &o) && (w.ledgerKind == evmNode || w.ledgerKind == gethNode) {
			late[o.id] = o.lane
			continue
		}
		w.t.Error(err)
	}
	moved := map[batch.ServiceID]int{}
	for _, lane := range late {
		moved[lane]++
	}
	for lane, n := range moved {
		assert.LessOrEqual(w.t, n, taken[lane], "%s: so many intents out of their order, and so many nonces that somebody else used", lane)
	}
	w.t.Logf("%d intents came behind others, since somebody else used their nonces", len(late))
	w.checkRecords(st, want)
	w.checkLate(r.Late)
	a := w.checkAudit()
	if len(w.freezes) > 0 && *chaosFaults >= 100 {
		assert.Positive(w.t, a["fenced"], "writes of workers whose claims had gone to others")
	}
	w.t.Logf("%d Adds acknowledged (%d tries were not) of %d batches; %d POSTs, %d executed, and %d of somebody else; %d restarts of the ledger",
		len(acked), w.producer.failedAdds, len(want), r.Posts, len(r.Executed), r.Foreign, r.Restarts)
	w.t.Logf("%d claims, %d writes, %d fenced off, %d decisions asked for, %d times trouble; %d POSTs too late by workers that were frozen",
		a["claim"], a["write"], a["fenced"], a["decision"], a["trouble"], len(r.Late))
}

// checkWithdrawals sets the expected state of each intent that a person has withdrawn to that of
// its record. Whichever of the intent's transactions was mined has decided, and the chain must
// agree.
func (w *world) checkWithdrawals(st *postgres.Store, want map[batch.ID]batch.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.withdrawn) == 0 {
		return
	}
	all, _, err := st.List(w.t.Context(), store.ListQuery{States: []batch.State{batch.Rejected}, Limit: 1000})
	require.NoError(w.t, err)
	closed := 0
	for _, r := range all {
		if w.withdrawn[r.ID] && assert.NotNil(w.t, r.Error, r.Key) && assert.Equal(w.t, batch.KindCancelled, r.Error.Kind, "%s: %v", r.Key, r.Error) {
			want[r.ID] = batch.Rejected
			closed++
		}
	}
	w.t.Logf("a person has withdrawn %d intents, or has tried to, and %d of them were never executed", len(w.withdrawn), closed)
}

// orderError says that a batch was executed after a batch behind it.
type orderError struct {
	lane   batch.ServiceID
	id     batch.ID
	detail string
}

// Error implements error.
func (o *orderError) Error() string {
	return fmt.Sprintf("%s/%s was executed after one %s", o.lane, o.id, o.detail)
}

// checkExecuted finds batches that were executed twice, that nobody added, that should have been
// executed and were not, or that were executed before a batch that was acknowledged before their
// Add began.
func checkExecuted(executed []execution, acked []ackedAdd, want map[batch.ID]batch.State) (errs []error) {
	type place struct {
		lane     batch.ServiceID
		add      *ackedAdd
		position int
	}
	places := map[batch.ID]place{}
	for i := range acked {
		for j, b := range acked[i].batches {
			places[b.ID] = place{b.Service, &acked[i], j}
		}
	}
	seen := map[batch.ID]bool{}
	latest := map[batch.ServiceID]place{} // the executed batch whose Add began last
	inCall := map[*ackedAdd]int{}
	for _, e := range executed {
		p, ok := places[e.ID]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("%s was executed and never added", e.ID))
			continue
		case seen[e.ID]:
			errs = append(errs, fmt.Errorf("%s/%s was executed twice", p.lane, e.ID))
			continue
		case want[e.ID] != batch.Committed:
			errs = append(errs, fmt.Errorf("%s/%s was executed and is to be %s", p.lane, e.ID, want[e.ID]))
		}
		seen[e.ID] = true
		before, ok := latest[p.lane]
		if ok && before.add.began.After(p.add.ended) {
			errs = append(errs, &orderError{p.lane, e.ID, fmt.Sprintf("whose Add began %s after it was acknowledged", before.add.began.Sub(p.add.ended))})
		}
		if !ok || p.add.began.After(before.add.began) {
			latest[p.lane] = p
		}
		if next := inCall[p.add]; p.position < next {
			errs = append(errs, &orderError{p.lane, e.ID, "behind it in its Add"})
		}
		inCall[p.add] = p.position
	}
	for id, state := range want {
		if state == batch.Committed && !seen[id] {
			errs = append(errs, fmt.Errorf("%s/%s was acknowledged, and lost", places[id].lane, id))
		}
	}
	return errs
}

// checkRecords compares the store with the expected state of every batch.
func (w *world) checkRecords(st *postgres.Store, want map[batch.ID]batch.State) {
	var after store.Cursor
	n, slowest, which := 0, time.Duration(0), ""
	last := map[batch.ServiceID]time.Time{} // when the last batch of each lane became final
	for {
		records, next, err := st.List(w.t.Context(), store.ListQuery{Limit: 1000, After: after})
		require.NoError(w.t, err)
		for _, r := range records {
			n++
			front := r.CreatedAt
			if t := last[r.Service]; t.After(front) {
				front = t
			}
			if t := r.FinalAt.Sub(front); t > slowest {
				slowest, which = t, fmt.Sprintf("%s, in %d attempts", r.Key, r.Attempt)
			}
			last[r.Service] = r.FinalAt
			assert.Equal(w.t, want[r.ID], r.State, "%s %v", r.Key, r.Error)
			assert.True(w.t, r.Final(), r.Key)
		}
		if after = next; next == "" {
			break
		}
	}
	assert.Equal(w.t, len(want), n, "acknowledged, and stored")
	w.t.Logf("nothing was first in its lane for longer than %s (%s)", slowest.Round(time.Millisecond), which)
}

// checkLate finds POSTs that outlived their claims although the sender was not frozen.
func (w *world) checkLate(all []latePost) {
	for _, l := range all {
		frozen := false
		for _, s := range w.freezes[l.Worker] {
			frozen = frozen || (s.began.Before(l.Deadline.Add(lateArrival)) && l.At.Before(s.ended.Add(time.Second)))
		}
		assert.True(w.t, frozen, "a POST of %s by %s arrived %s after its deadline", l.ID, l.Worker, l.At.Sub(l.Deadline))
	}
}

// checkAudit reads the workers' audits. Only one claim or write may make a given version of a
// batch, and a write that is not a fact must apply to the version that its worker read. So it
// proves that the store accepted no write from a worker whose claim another worker had taken over.
func (w *world) checkAudit() map[string]int {
	files, err := filepath.Glob(filepath.Join(w.dir, "*.audit"))
	require.NoError(w.t, err)
	require.NotEmpty(w.t, files)
	type made struct {
		id      batch.ID
		version int64
	}
	by, count := map[made]string{}, map[string]int{}
	for _, name := range files {
		file, err := os.Open(name)
		require.NoError(w.t, err)
		worker := filepath.Base(name)
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var e auditEntry
			require.NoError(w.t, json.Unmarshal(lines.Bytes(), &e), "%s: %s", name, lines.Text())
			count[e.Op]++
			switch e.Op {
			case "claim", "write":
				if other, twice := by[made{e.ID, e.Version}]; twice {
					w.t.Errorf("version %d of %s was made by %s and by %s: %+v", e.Version, e.ID, other, worker, e)
				}
				by[made{e.ID, e.Version}] = worker
				if e.Op == "write" && !e.Fact && e.Version != e.Was+1 {
					w.t.Errorf("a write of %s to version %d of %s made version %d (%s)", worker, e.Was, e.ID, e.Version, e.Text)
				}
			case "breach", "bad":
				if e.Op == "breach" && onChain(w.ledgerKind) {
					break // the batch was sent again while later ones are under way: nonces keep the order
				}
				w.t.Errorf("%s: %s of %s: %s", worker, e.Op, e.ID, e.Text)
			}
		}
		require.NoError(w.t, lines.Err())
		require.NoError(w.t, file.Close())
	}
	require.Positive(w.t, count["claim"])
	require.Positive(w.t, count["write"])
	return count
}
