package sawtoothtest

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
)

// idQueryCodes is the codes of errors for a query with ids: a GET with a query, or a POST with a
// JSON array. The codes for statuses and for receipts differ.
type idQueryCodes struct{ contentType, body, missingID int }

func (n *Node) readIDs(r *http.Request, q idQueryCodes) ([]string, *answer) {
	early := func(a answer) ([]string, *answer) { return nil, &a }
	var ids []string
	if r.Method == http.MethodPost {
		types, ok := r.Header["Content-Type"]
		if !ok {
			return early(exceptionAnswer())
		}
		if types[0] != "application/json" {
			return early(codeAnswer(q.contentType))
		}
		body, a := n.readBody(r)
		if a != nil {
			return nil, a
		}
		var value any
		if err := json.Unmarshal(body, &value); err != nil {
			return early(exceptionAnswer())
		}
		list, ok := value.([]any)
		if !ok || len(list) == 0 {
			return early(codeAnswer(q.body))
		}
		for _, x := range list {
			s, ok := x.(string)
			if !ok {
				return early(codeAnswer(q.body))
			}
			ids = append(ids, s)
		}
	} else {
		value, ok := queryValue(r.URL, "id")
		if !ok {
			return early(codeAnswer(q.missingID))
		}
		ids = strings.Split(value, ",")
	}
	for _, id := range ids {
		if !isValidID(id) {
			return early(invalidID(id))
		}
	}
	return ids, nil
}

func isValidID(id string) bool {
	return len(id) == 128 && strings.Trim(id, "0123456789abcdef") == ""
}

func (n *Node) serveStatuses(w http.ResponseWriter, r *http.Request) {
	texts, early := n.readIDs(r, idQueryCodes{codeStatusContentType, codeStatusBody, codeStatusIDMissing})
	if early != nil {
		n.send(w, r, *early, Fault{})
		return
	}
	ids := make([]batch.ID, len(texts))
	for i, id := range texts {
		ids[i] = batch.ID(id)
	}
	epoch, fault := n.beginRead(OpStatuses, ids)
	if !n.pause(r.Context(), fault.Delay) {
		simnode.Reset(w)
		return
	}
	switch fault.Answer {
	case AnswerNever, AnswerReset, AnswerError:
		n.send(w, r, answer{}, fault)
		return
	}
	words, err := n.ask(r, epoch, ids)
	if err != nil {
		if a, ok := answerOfError(err); ok {
			n.send(w, r, a, fault)
			return
		}
		simnode.Reset(w)
		return
	}
	envelope := map[string]any{}
	data := make([]any, len(ids))
	for i, id := range ids {
		data[i] = map[string]any{"id": string(id), "status": words[i].word, "invalid_transactions": invalidJSON(words[i].invalidTxs)}
	}
	envelope["data"] = data
	if r.Method != http.MethodPost {
		envelope["link"] = linkTo(r, "/batch_statuses", nil)
	}
	a := jsonAnswer(http.StatusOK, envelope)
	if fault.Answer == AnswerProperly {
		n.journalAnswers(ids, words)
	}
	n.send(w, r, a, fault)
}

func (n *Node) journalAnswers(ids []batch.ID, words []statusWord) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.advanceToNow()
	for i, id := range ids {
		n.validator.journal.noteAnswer(now, id, words[i].word)
	}
}

type statusWord struct {
	word       string
	invalidTxs []invalidTx
}

// ask reads the statuses, after a wait if the query asks for one
// (docs/ledgers/sawtooth.md#asking-for-statuses).
func (n *Node) ask(r *http.Request, epoch int, ids []batch.ID) ([]statusWord, error) {
	deadline := time.Now().Add(n.options.RESTTimeout)
	words := make([]statusWord, len(ids))
	read := func(now time.Time) {
		for i, id := range ids {
			words[i].word, words[i].invalidTxs = n.validator.tracker.queryStatus(now, id)
		}
	}
	value, _ := queryValue(r.URL, "wait")
	if _, ok := r.URL.Query()["wait"]; !ok || strings.EqualFold(value, "false") {
		return words, n.runTask(r.Context(), epoch, deadline, &task{do: read})
	}
	wt := &statusWait{ids: ids}
	err := n.runTask(r.Context(), epoch, deadline, &task{do: func(now time.Time) {
		wt.until = now.Add(n.waitTime(value))
		n.validator.waits = append(n.validator.waits, wt)
	}})
	if err != nil {
		return nil, err
	}
	// If a wait ends together with the REST timeout, the timeout decides: there is no answer.
	err = n.await(r.Context(), epoch, deadline, func() bool {
		now := time.Now()
		if wt.isLost {
			return true
		}
		if !wt.isDone || !now.Before(deadline) {
			return false
		}
		read(now)
		return true
	})
	if err == nil && wt.isLost {
		err = errDisconnected
	}
	return words, err
}

// waitTime returns the duration that a value of "wait" means.
func (n *Node) waitTime(value string) time.Duration {
	seconds, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	switch {
	case err != nil || seconds < 0 || seconds > math.MaxUint32:
		return n.options.RESTTimeout * 95 / 100
	case seconds == 0:
		return max(300*time.Second, n.options.RESTTimeout) // the validator's own default
	}
	return time.Duration(seconds) * time.Second
}

// invalidJSON returns the list of invalid transactions as JSON, without empty fields
// (docs/ledgers/sawtooth.md#asking-for-statuses).
func invalidJSON(txs []invalidTx) []any {
	out := make([]any, 0, len(txs))
	for _, tx := range txs {
		m := map[string]any{"id": tx.id}
		if tx.message != "" {
			m["message"] = tx.message
		}
		if len(tx.data) > 0 {
			m["extended_data"] = base64.StdEncoding.EncodeToString(tx.data)
		}
		out = append(out, m)
	}
	return out
}
