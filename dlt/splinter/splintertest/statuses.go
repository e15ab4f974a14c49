package splintertest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// statuses serves GET batch_statuses (C3).
func (v *node) statuses(w http.ResponseWriter, r *http.Request, s *service) {
	q := r.URL.Query()
	if !q.Has("ids") {
		v.send(w, r, refusal(http.StatusBadRequest, "Missing `ids` query parameter"), Fault{})
		return
	}
	set := map[batch.ID]struct{}{} // duplicates collapse, and the order is arbitrary
	var named []batch.ID
	for id := range strings.SplitSeq(q.Get("ids"), ",") {
		if _, twice := set[batch.ID(id)]; !twice {
			named = append(named, batch.ID(id))
		}
		set[batch.ID(id)] = struct{}{}
	}
	f := v.admit(OpStatuses, s, named)
	if f.Delay > 0 && !v.delay(r, f.Delay) {
		panic(http.ErrAbortHandler)
	}
	var until <-chan time.Time
	wait, ok := v.wait(q.Has("wait"), q.Get("wait"))
	if !ok {
		v.send(w, r, serverError(), f)
		return
	}
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		until = timer.C
	}
	restart := v.restartOf(s)
	if v.await(r.Context(), nil, func() bool { return !s.stalled }) != nil {
		panic(http.ErrAbortHandler)
	}
	v.mu.Unlock()
	done := func() bool {
		for id := range set {
			if w := s.seen.word(id); w != wordInvalid && w != wordCommitted {
				return wait == 0
			}
		}
		return true
	}
	if v.await(r.Context(), until, done) != nil {
		panic(http.ErrAbortHandler)
	}
	select {
	case <-restart:
		v.mu.Unlock()
		panic(http.ErrAbortHandler)
	default:
	}
	a := v.answerStatuses(s, set)
	if wait > 0 && v.o.Old && !done() {
		a = refusal(http.StatusRequestTimeout, "timeout while waiting for batches")
	}
	v.mu.Unlock()
	v.send(w, r, a, f)
}

// wait reads the parameter: absent or false is none, a number seconds, anything else 300.
func (v *node) wait(there bool, text string) (time.Duration, bool) {
	if !there || text == "false" {
		return 0, true
	}
	n, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil:
		return v.o.WaitDefault, true
	case n > 1<<32:
		return 0, false
	}
	return time.Duration(n) * time.Second, true
}

func (v *node) admit(op Operation, s *service, ids []batch.ID) Fault {
	v.mu.Lock()
	defer v.mu.Unlock()
	var first batch.ID
	if len(ids) > 0 {
		first = ids[0]
	}
	v.tries[op][first]++
	return v.o.Faults.request(Point{Operation: op, Service: s.name(), Batches: slices.Clone(ids), Try: v.tries[op][first]})
}

// answerStatuses makes the array. The lock is held.
func (v *node) answerStatuses(s *service, set map[batch.ID]struct{}) answer {
	out := make([]any, 0, len(set))
	for id := range set { // a map's order is as arbitrary as theirs
		word, first := wordUnknown, time.Now()
		k := s.seen.entries[id]
		if k != nil {
			word, first = k.word, k.first
		}
		if v.told[id] != word {
			v.told[id] = word
			v.note(Entry{Kind: StatusAnswered, Service: s.name(), Batches: []batch.ID{id}, Word: word})
		}
		status := map[string]any{"statusType": word}
		if !v.o.Old || (word != wordUnknown && word != wordPending) {
			status["message"] = k.messages()
		}
		out = append(out, map[string]any{
			"id": string(id), "status": status,
			"timestamp": map[string]int64{"secs_since_epoch": first.Unix(), "nanos_since_epoch": int64(first.Nanosecond())},
		})
	}
	return document(http.StatusOK, out)
}

func (k *known) messages() []any {
	out := []any{}
	if k == nil || k.word == wordPending {
		return out
	}
	for _, tx := range k.txs {
		if k.word != wordInvalid {
			out = append(out, map[string]any{"transaction_id": tx})
			continue
		}
		m := map[string]any{"transaction_id": tx, "error_message": "containing batch is invalid", "error_data": []int{}}
		if tx == k.failed {
			var data []int // byte by byte
			for _, b := range []byte(k.message) {
				data = append(data, int(b))
			}
			m["error_message"], m["error_data"] = fmt.Sprintf("transaction failed: %s", k.message), data
		}
		out = append(out, m)
	}
	return out
}
