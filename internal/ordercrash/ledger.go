package ordercrash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

// firstPost is what a command had at its first POST.
type firstPost struct {
	party          batch.ServiceID
	commands       string   // the bytes of the commands
	payees         []string // the payees
	attemptNumbers map[int]bool
}

// submission is the part of a POST that the parent reads.
type submission struct {
	CommandID    string            `json:"commandId"`
	SubmissionID string            `json:"submissionId"`
	ActAs        []batch.ServiceID `json:"actAs"`
	Commands     json.RawMessage   `json:"commands"`
}

// serveParticipant passes requests to the participant. It checks every submission against the
// database. It drops a submission that comes after the client's deadline, since on a busy machine
// a request of a dead worker may be read seconds after it was written.
func (w *World) serveParticipant(rw http.ResponseWriter, r *http.Request) {
	if r.Method+" "+r.URL.Path != "POST /v2/commands/async/submit" {
		w.ledger.ServeHTTP(rw, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	var s submission
	if err := json.Unmarshal(body, &s); err != nil || len(s.ActAs) != 1 {
		w.fail("a submission that cannot be read: %v", err)
		panic(http.ErrAbortHandler)
	}
	w.checkSubmission(r, s)
	deadline, err := strconv.ParseInt(r.Header.Get(deadlineHeader), 10, 64)
	if err != nil || time.Now().After(time.Unix(0, deadline).Add(lateArrival/2)) {
		w.mu.Lock()
		w.latePosts++
		w.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	w.ledger.ServeHTTP(rw, r)
}

// checkSubmission checks a submission at the time of its POST: its batch is stored, its attempt is
// counted and spent, no other batch of the party is under way, and its bytes are those of the
// earlier attempts. It reports a violation.
func (w *World) checkSubmission(r *http.Request, s submission) {
	key := batch.Key{Service: s.ActAs[0], ID: batch.ID(s.CommandID)}
	number, err := strconv.Atoi(strings.TrimPrefix(s.SubmissionID, s.CommandID+"#"))
	if err != nil {
		w.fail("the submission id of %s is %q", key, s.SubmissionID)
	}
	w.mu.Lock()
	p := w.firstPosts[key.ID]
	if p == nil {
		p = &firstPost{party: key.Service, commands: string(s.Commands), payees: recipients(s.Commands), attemptNumbers: map[int]bool{}}
		w.firstPosts[key.ID] = p
	}
	p.attemptNumbers[number] = true
	spent, same := len(p.attemptNumbers), p.commands == string(s.Commands)
	w.mu.Unlock()
	if !same {
		w.fail("attempt %d of %s has other bytes than the first one", number, key)
	}
	rec, err := w.store.Get(r.Context(), key)
	switch {
	case r.Context().Err() != nil: // the sender is dead
		return
	case err != nil:
		w.fail("attempt %d of %s is posted: %w", number, key, err)
	case rec.Attempt < number || rec.Spent < spent:
		w.fail("attempt %d of %s is posted, the %d., and %d are counted, %d spent", number, key, spent, rec.Attempt, rec.Spent)
	}
	dequeued, _, err := w.store.ListOrders(r.Context(), order.ListQuery{Party: &key.Service, States: []order.State{order.Dequeued}})
	if err != nil {
		if r.Context().Err() == nil {
			w.fail("list orders: %w", err)
		}
		return
	}
	for _, o := range dequeued {
		if o.Batch == key.ID {
			continue
		}
		// The parent may read a request of a dead worker after the batch has become final and the
		// next batch exists, so a final batch is no violation.
		if rec, err = w.store.Get(r.Context(), key); err == nil && !rec.Final() {
			w.fail("attempt %d of %s is posted, and order %s is part of %s", number, key, o.ID, o.Batch)
		}
	}
}

func recipients(commands json.RawMessage) (to []string) {
	var doc []struct {
		ExerciseCommand struct {
			ChoiceArgument cantontest.Transfer `json:"choiceArgument"`
		}
	}
	if err := json.Unmarshal(commands, &doc); err != nil {
		return []string{fmt.Sprint("unreadable: ", err)}
	}
	for _, c := range doc {
		to = append(to, c.ExerciseCommand.ChoiceArgument.To)
	}
	return to
}

// drawFault returns the participant's faults for the first submissions of a command, by seed. A
// late arrival comes within half of the time that the client declares, and a late decision within
// half of Decided.
func (w *World) drawFault(p cantontest.RequestPoint) cantontest.Fault {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d|%s|%s|%d", w.options.Seed, p.Operation, p.CommandID, p.Try)
	x := h.Sum64()
	x ^= x >> 29
	n := int(x * 0xbf58476d1ce4e5b9 >> 40 % 40)
	switch {
	case p.Operation == cantontest.OpCompletions && n == 0:
		return cantontest.Fault{Answer: cantontest.AnswerReset}
	case p.Operation == cantontest.OpStream && n < 5:
		return cantontest.Fault{Answer: cantontest.AnswerReset}
	case p.Operation != cantontest.OpSubmit || p.Try > maxAttempts+2:
		return cantontest.Fault{}
	}
	all := []cantontest.Fault{
		{Answer: cantontest.AnswerReset},
		{Answer: cantontest.AnswerReset, Accept: true},
		{Answer: cantontest.AnswerReset, Accept: true, AcceptAfter: lateArrival / 4},
		{Answer: cantontest.AnswerTimeout},
		{Answer: cantontest.AnswerTimeout, Accept: true},
		{Answer: cantontest.AnswerNever, Accept: true},
		{Answer: cantontest.AnswerError, Error: "PARTICIPANT_BACKPRESSURE"},
		{Answer: cantontest.AnswerError, Error: "SERVICE_NOT_RUNNING", Accept: true},
		{Reject: "LOCAL_VERDICT_LOCKED_CONTRACTS"},
		{Reject: "REQUEST_TIME_OUT"},
		{Lose: true},
		{CompleteAfter: 150 * time.Millisecond},
	}
	if n < len(all) {
		return all[n]
	}
	return cantontest.Fault{}
}
