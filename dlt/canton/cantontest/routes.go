package cantontest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
)

// ServeHTTP implements [http.Handler]: the JSON Ledger API (docs/ledgers/canton.md#endpoints).
func (p *Participant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "POST /v2/commands/async/submit":
		p.serveSubmit(w, r)
	case "POST /v2/commands/completions":
		p.serveCompletions(w, r)
	case "GET /v2/commands/completions":
		p.serveStream(w, r)
	case "GET /v2/state/ledger-end":
		p.serveState(w, r, OpLedgerEnd, func() any { return map[string]any{"offset": p.ledgerEnd} })
	case "GET /v2/state/latest-pruned-offsets":
		p.serveState(w, r, OpPruned, func() any {
			return map[string]any{"participantPrunedUpToInclusive": p.prunedUpTo, "allDivulgedContractsPrunedUpToInclusive": 0}
		})
	case "GET /v2/version":
		p.send(w, r, jsonAnswer(http.StatusOK, map[string]any{"version": "3.4.0-sim"}), Fault{})
	case "GET /livez":
		w.WriteHeader(http.StatusOK)
	case "GET /readyz":
		p.send(w, r, textAnswer(http.StatusOK, "[+] ledger ok (SERVING)\nreadyz check passed\n"), Fault{})
	default:
		p.send(w, r, textAnswer(http.StatusNotFound, "The requested resource could not be found."), Fault{})
	}
}

// pause waits for d, and reports whether the client is still connected.
func (p *Participant) pause(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
	case <-p.closed:
	}
	return false
}

// readBody reads a JSON body. It returns an answer if the body is malformed, else nil.
func (p *Participant) readBody(r *http.Request, into any) *answer {
	b, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, p.options.MaxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		a := textAnswer(http.StatusRequestEntityTooLarge, "EntityStreamSizeException: the body exceeds the limit")
		return &a
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if err := json.Unmarshal(b, into); err != nil {
		a := textAnswer(http.StatusBadRequest, "Invalid value for: body ("+err.Error()+")")
		return &a
	}
	return nil
}

func missingFieldAnswer(field string) *answer {
	a := textAnswer(http.StatusBadRequest, "Invalid value for: body (Missing required field at '"+field+"')")
	return &a
}

// userOf returns the user of a request, and checks that the user may act for the parties, or read
// as them (docs/ledgers/canton.md#authorization).
func (p *Participant) userOf(r *http.Request, bodyUser string, parties []string, act bool) (string, *answer) {
	refuse := func(x refusalError) (string, *answer) {
		a := x.answer()
		return "", &a
	}
	if p.options.Users == nil {
		if bodyUser == "" {
			return refuse(refusalError{id: "MISSING_FIELD", cause: "The submitted command is missing a mandatory field: user_id",
				context: map[string]string{"field_name": "user_id"}})
		}
		return bodyUser, nil
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token == "" {
		for offered := range strings.SplitSeq(r.Header.Get("Sec-WebSocket-Protocol"), ",") {
			if t, ok := strings.CutPrefix(strings.TrimSpace(offered), "jwt.token."); ok {
				token = t
			}
		}
	}
	u, known := p.options.Users[token]
	switch {
	case !known || u.TokenExpired:
		return refuse(refusalError{id: "UNAUTHENTICATED", context: map[string]string{"ledger_api_error": "invalid token"}})
	case bodyUser != "" && bodyUser != u.ID:
		return refuse(refusalError{id: "PERMISSION_DENIED"})
	}
	for _, party := range parties {
		if !slices.Contains(u.ActAs, party) && (act || !slices.Contains(u.ReadAs, party)) {
			return refuse(refusalError{id: "PERMISSION_DENIED"})
		}
	}
	return u.ID, nil
}

func (p *Participant) serveState(w http.ResponseWriter, r *http.Request, op Operation, doc func() any) {
	p.mu.Lock()
	p.doWhatIsDue(time.Now())
	f := p.drawFault(RequestPoint{Operation: op})
	p.mu.Unlock()
	if !p.pause(r, f.Delay) {
		simnode.Reset(w)
		return
	}
	if p.options.Users != nil {
		if _, refused := p.userOf(r, "", nil, false); refused != nil {
			p.send(w, r, *refused, f)
			return
		}
	}
	p.mu.Lock()
	p.doWhatIsDue(time.Now())
	a := jsonAnswer(http.StatusOK, doc())
	p.mu.Unlock()
	p.send(w, r, a, f)
}

func (p *Participant) serveSubmit(w http.ResponseWriter, r *http.Request) {
	var doc submitJSON
	refused := p.readBody(r, &doc)
	switch {
	case refused != nil:
	case doc.CommandID == nil:
		refused = missingFieldAnswer("commandId")
	case doc.ActAs == nil:
		refused = missingFieldAnswer("actAs")
	case doc.Commands == nil:
		refused = missingFieldAnswer("commands")
	}
	if refused != nil {
		p.send(w, r, *refused, Fault{})
		return
	}
	transfers, err := doc.transfers()
	p.mu.Lock()
	p.doWhatIsDue(time.Now())
	e := Entry{Kind: Posted, User: doc.UserID, CommandID: *doc.CommandID, SubmissionID: doc.SubmissionID, Transfers: transfers}
	if len(doc.ActAs) > 0 {
		e.Party = doc.ActAs[0]
	}
	p.note(e)
	f := p.drawFault(RequestPoint{Operation: OpSubmit, CommandID: *doc.CommandID, SubmissionID: doc.SubmissionID})
	p.mu.Unlock()
	if !p.pause(r, f.Delay) {
		simnode.Reset(w)
		return
	}
	if f.Answer != AnswerProperly && f.Answer != AnswerTruncated && !f.Accept {
		p.send(w, r, jsonAnswer(http.StatusOK, map[string]any{}), f)
		return
	}
	user, refused := p.userOf(r, doc.UserID, doc.ActAs, true)
	if refused != nil {
		p.send(w, r, *refused, f)
		return
	}
	s, why := p.interpret(doc, transfers, err, user, f)
	if why != nil {
		p.mu.Lock()
		e.Kind, e.Error = Refused, why.id
		p.note(e)
		p.mu.Unlock()
		p.send(w, r, why.answer(), f)
		return
	}
	p.mu.Lock()
	now := time.Now()
	p.doWhatIsDue(now)
	if f.AcceptAfter > 0 {
		s.dueAt = now.Add(f.AcceptAfter)
		p.notArrived = insertByTime(p.notArrived, s)
		p.wake()
	} else {
		why = p.accept(s, now)
	}
	p.mu.Unlock()
	a := jsonAnswer(http.StatusOK, map[string]any{})
	if why != nil {
		a = why.answer()
	}
	p.send(w, r, a, f)
}

// interpret checks a submission before it is accepted (docs/ledgers/canton.md#submissions). err is
// the error from reading its transfers.
func (p *Participant) interpret(doc submitJSON, transfers []Transfer, err error, user string, f Fault) (*submission, *refusalError) {
	switch {
	case *doc.CommandID == "" || len(doc.ActAs) == 0 || len(doc.Commands) == 0:
		return nil, &refusalError{id: "MISSING_FIELD", cause: "The submitted command is missing a mandatory field"}
	case len(*doc.CommandID) > 255 || len(doc.SubmissionID) > 255:
		return nil, &refusalError{id: "INVALID_FIELD", cause: "a LedgerString is too long"}
	}
	d, why := p.parsePeriod(doc)
	if why != nil {
		return nil, why
	}
	if err != nil {
		return nil, &refusalError{id: "DAML_INTERPRETATION_ERROR", cause: err.Error()}
	}
	for _, t := range transfers {
		if t.Poison == PoisonSync {
			return nil, &refusalError{id: "DAML_FAILURE", cause: "Interpretation error: the transfer was poisoned"}
		}
		if p.isSpent(t.Spends) {
			return nil, &refusalError{id: "CONTRACT_NOT_FOUND", cause: "Contract could not be found with id " + t.Spends}
		}
	}
	if doc.SubmissionID == "" {
		doc.SubmissionID = "sim-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	}
	return &submission{
		changeID: changeID{user, partySet(doc.ActAs), *doc.CommandID},
		id:       doc.SubmissionID, actAs: doc.ActAs, transfers: transfers, period: d, fault: f,
	}, nil
}

func (p *Participant) isSpent(contract string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isArchived[contract]
}

// parsePeriod reads the deduplication period of a submission (docs/ledgers/canton.md#submissions,
// docs/ledgers/canton.md#deduplication).
func (p *Participant) parsePeriod(doc submitJSON) (deduplicationPeriod, *refusalError) {
	wrong := func(cause string, context map[string]string) (deduplicationPeriod, *refusalError) {
		return deduplicationPeriod{}, &refusalError{id: "INVALID_DEDUPLICATION_PERIOD", cause: cause, context: context}
	}
	for kind, body := range doc.Deduplication {
		switch kind {
		case "DeduplicationDuration":
			var d struct {
				Seconds int64 `json:"seconds"`
				Nanos   int64 `json:"nanos"`
			}
			if err := json.Unmarshal(body.Value, &d); err != nil || d.Seconds < 0 || d.Nanos < 0 {
				return deduplicationPeriod{}, &refusalError{id: "INVALID_FIELD", cause: "deduplicationPeriod"}
			}
			if d.Seconds > int64(p.options.MaxDeduplication/time.Second) {
				return wrong("The given deduplication duration exceeds the maximum",
					map[string]string{"longest_duration": p.options.MaxDeduplication.String()})
			}
			return deduplicationPeriod{duration: time.Duration(d.Seconds)*time.Second + time.Duration(d.Nanos)}, nil
		case "DeduplicationOffset":
			var offset int64
			if err := json.Unmarshal(body.Value, &offset); err != nil {
				return deduplicationPeriod{}, &refusalError{id: "INVALID_FIELD", cause: "deduplicationPeriod"}
			}
			p.mu.Lock()
			pruned := p.prunedUpTo
			p.mu.Unlock()
			if offset < pruned {
				return wrong("The deduplication offset was pruned", map[string]string{"earliest_offset": strconv.FormatInt(pruned, 10)})
			}
			return deduplicationPeriod{offset: offset, isByOffset: true}, nil
		}
	}
	return deduplicationPeriod{duration: p.options.MaxDeduplication}, nil
}
