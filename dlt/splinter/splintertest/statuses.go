package splintertest

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// serveStatuses serves GET batch_statuses.
func (v *node) serveStatuses(w http.ResponseWriter, r *http.Request, s *service) {
	q := parseQuery(r.URL.RawQuery)
	text, has := q["ids"]
	if !has {
		v.send(w, r, errorAnswer(http.StatusBadRequest, "No batch IDs specified"), Fault{})
		return
	}
	set := map[batch.ID]struct{}{} // each id counts once, and the order is arbitrary
	var named []batch.ID
	for id := range strings.SplitSeq(text, ",") {
		if _, twice := set[batch.ID(id)]; !twice {
			named = append(named, batch.ID(id))
		}
		set[batch.ID(id)] = struct{}{}
	}
	f := v.drawFault(OpStatuses, s, named)
	if f.Delay > 0 && !v.delay(r, f.Delay) {
		panic(http.ErrAbortHandler)
	}
	waitText, waits := q["wait"]
	wait, ok := v.parseWait(waits, waitText)
	if !ok {
		v.send(w, r, serverErrorAnswer(), f)
		return
	}
	done, ok := v.waitForWorker(r)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	a, ok := v.statusesAfter(s, set, wait)
	done()
	if !ok {
		panic(http.ErrAbortHandler)
	}
	v.send(w, r, a, f)
}

// statusesAfter waits until all batches are Invalid or Committed, or the time is over. For the
// others it returns the status from the beginning of the wait. The wait occupies the worker, but
// not the locks.
func (v *node) statusesAfter(s *service, set map[batch.ID]struct{}, wait time.Duration) (answer, bool) {
	if !v.waitForLocks(s) {
		return answer{}, false
	}
	life, first := v.processEnd, v.readHistory(s, set)
	if wait == 0 || first.areFinal() {
		defer v.mu.Unlock()
		return first.answer(s), true
	}
	v.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	err := v.await(context.Background(), timer.C, func() bool { return isClosed(life) || v.readHistory(s, set).areFinal() })
	if err != nil {
		return answer{}, false
	}
	defer v.mu.Unlock()
	last := v.readHistory(s, set)
	if isClosed(life) {
		return answer{}, false
	}
	if v.options.Before0613 && !last.areFinal() {
		return errorAnswer(http.StatusRequestTimeout, "Failed to get batch statuses before timeout: timeout"), true
	}
	for i := range last {
		if !last[i].isFinal() {
			last[i] = first[slices.IndexFunc(first, func(k batchInfo) bool { return k.id == last[i].id })]
		}
	}
	return last.answer(s), true
}

// parseWait reads the parameter wait: no value or false means no wait, a number means seconds, and
// any other text means DefaultWait.
func (v *node) parseWait(there bool, text string) (time.Duration, bool) {
	if !there || text == "false" {
		return 0, true
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "+"), 10, 64)
	switch {
	case err != nil:
		return v.options.DefaultWait, true
	case n > math.MaxInt64/2: // the duration would overflow
		return 0, false
	}
	return time.Duration(min(n, uint64(math.MaxInt64/time.Second))) * time.Second, true
}

func (v *node) drawFault(op Operation, s *service, ids []batch.ID) Fault {
	v.mu.Lock()
	defer v.mu.Unlock()
	var first batch.ID
	if len(ids) > 0 {
		first = ids[0]
	}
	v.triesByOperation[op][first]++
	return v.options.Faults.drawRequest(RequestPoint{Operation: op, Service: s.name(), Batches: slices.Clone(ids), Try: v.triesByOperation[op][first]})
}

// batchInfo is the answer about one batch.
type batchInfo struct {
	id batch.ID
	batchRecord
}

func (i batchInfo) isFinal() bool { return i.word == wordInvalid || i.word == wordCommitted }

type batchInfos []batchInfo

func (l batchInfos) areFinal() bool {
	return !slices.ContainsFunc(l, func(i batchInfo) bool { return !i.isFinal() })
}

// readHistory reads the history. The caller holds the lock.
func (v *node) readHistory(s *service, set map[batch.ID]struct{}) (out batchInfos) {
	for id := range set { // a map's order is as arbitrary as a real node's
		k := batchRecord{word: wordUnknown, firstSeen: time.Now()}
		if there := s.history.entries[id]; there != nil {
			k = *there
		}
		out = append(out, batchInfo{id, k})
	}
	return out
}

// answer returns the array of statuses. The caller holds the lock.
func (l batchInfos) answer(s *service) answer {
	v := s.node
	out := make([]any, 0, len(l))
	for _, i := range l {
		if v.lastAnswers[i.id] != i.word {
			v.lastAnswers[i.id] = i.word
			v.note(Entry{Kind: StatusAnswered, Service: s.name(), Batches: []batch.ID{i.id}, Word: i.word})
		}
		status := map[string]any{"statusType": i.word}
		if !v.options.Before0613 || (i.word != wordUnknown && i.word != wordPending) {
			status["message"] = i.messages()
		}
		out = append(out, map[string]any{
			"id": string(i.id), "status": status,
			"timestamp": map[string]int64{"secs_since_epoch": i.firstSeen.Unix(), "nanos_since_epoch": int64(i.firstSeen.Nanosecond())},
		})
	}
	return jsonAnswer(http.StatusOK, out)
}

func (i batchInfo) messages() []any {
	out := []any{}
	if i.word == wordUnknown || i.word == wordPending {
		return out
	}
	for _, tx := range i.txs {
		m := map[string]any{"transaction_id": tx}
		if i.word == wordInvalid {
			// A node always leaves error_data empty.
			m["error_message"], m["error_data"] = fmt.Sprintf("containing batch (%s) is invalid", i.id), []int{}
			if tx == i.failedTransaction {
				m["error_message"] = i.message
			}
		}
		out = append(out, m)
	}
	return out
}
