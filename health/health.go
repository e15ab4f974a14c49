// Package health describes how a Runner is doing: data ([Health]) for readiness probes and for
// people, and one verdict about it ([Health.Attention]). Runner.Health returns it.
package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Condition is the state of a part that a Runner needs.
type Condition uint8

// The conditions.
const (
	// ConditionIdle: nothing is known. The part was not used yet, or its last failure is so long
	// ago that it means nothing any more.
	ConditionIdle Condition = iota
	// ConditionOK: the last call succeeded.
	ConditionOK
	// ConditionFailing: nothing has succeeded since FailingSince.
	ConditionFailing
)

var conditionNames = [...]string{ConditionIdle: "idle", ConditionOK: "ok", ConditionFailing: "failing"}

// String returns the condition in lower case.
func (c Condition) String() string {
	if c > ConditionFailing {
		return fmt.Sprintf("condition(%d)", uint8(c))
	}
	return conditionNames[c]
}

// MarshalText returns the condition in lower case. The error is a [*batch.InputError].
func (c Condition) MarshalText() ([]byte, error) {
	if c > ConditionFailing {
		return nil, &batch.InputError{Field: "Condition", Value: c.String(), Want: "idle, ok or failing"}
	}
	return []byte(conditionNames[c]), nil
}

// UnmarshalText reads the output of MarshalText. The error is a [*batch.InputError].
func (c *Condition) UnmarshalText(text []byte) error {
	i := slices.Index(conditionNames[:], string(text))
	if i < 0 {
		return &batch.InputError{Field: "Condition", Value: batch.Excerpt(string(text), 64), Want: "idle, ok or failing"}
	}
	*c = Condition(i)
	return nil
}

// ErrNoAnswer is the error of a part in [Health] whose calls to the database have had no answer
// for seconds, and are still under way.
var ErrNoAnswer = errors.New("no answer")

// PartHealth is the health of one part. Times are this process's.
type PartHealth struct {
	Condition Condition `json:"condition"`
	// LastSuccess is when a call succeeded last. It is zero if none has succeeded since Run began.
	LastSuccess time.Time `json:"last_success,omitzero"`
	// FailingSince is when the first call began that failed after the last success. It is zero if
	// the part does not fail. The next success clears it and the two fields below. So does a pause
	// of [FailureMemory] without calls.
	FailingSince time.Time `json:"failing_since,omitzero"`
	Failures     int       `json:"failures,omitzero"` // failed calls since then
	// NoAnswerSince is since when calls to the database are under way without any answer. It is
	// zero in the first three seconds. A failure is an answer. For calls to a ledger, which have
	// timeouts of their own, it stays zero.
	NoAnswerSince time.Time `json:"no_answer_since,omitzero"`
	// Err is the error of the last failure, or wraps [ErrNoAnswer]. In JSON it is the text, as
	// error.
	Err error `json:"-"`
}

// FailureMemory is how long a failure counts if no call follows it. It is longer than any pause of
// a loop.
const FailureMemory = 5 * time.Minute

// Health is how a Runner is doing: data for readiness probes and for people. Its verdict, in
// sentences, is [Health.Attention].
//
// An idle Runner looks at the store every Options.ScanInterval, which keeps Store current, and its
// monitor every 5 s, or PollInterval if that is longer; it asks the ledger nothing. One failed
// call makes a part ConditionFailing until the next success. To ignore short failures, look at the
// age of FailingSince.
type Health struct {
	Running bool `json:"running"`
	// Paused is true if nothing at all is posted at present, because the ledger is busy, cannot be
	// reached, or refuses this client. With a [dlt.Router] it is true if this holds for each of
	// its ledgers.
	Paused bool `json:"paused"`
	// Pauses are the ledgers and the services to which nothing is posted, in the order of
	// [Pause.Compare]. A pause that is over is left out once nothing has waited for [PauseMemory],
	// because it is then unknown whether the ledger takes batches again.
	Pauses []Pause `json:"pauses,omitempty"`
	// HaltedServices are the services whose lanes this Runner halted because the ledger
	// executed a batch and took it back, again and again (see [batch.Control].HaltReason). A
	// service leaves the list once the ledger accepts or commits something of it again.
	HaltedServices []batch.ServiceID `json:"halted_services,omitempty"`
	// HaltedSince is since when the first of HaltedServices is halted; zero if there are none.
	HaltedSince time.Time `json:"halted_since,omitzero"`
	// HeldServices are the services that this Run does not serve: options, ledger and store do not
	// fit, or another ledger has them. A lane held for another reason is not among them. Explain
	// of a batch and batch.EventLaneHeld give the reason.
	HeldServices []batch.ServiceID `json:"held_services,omitempty"`
	// HeldSince is since when the first of HeldServices is held; zero if there are none.
	HeldSince time.Time `json:"held_since,omitzero"`
	// Store is the database, as all loops see it: any successful call clears a failure, but only a
	// write clears the failure of a write. While nothing is to be done, no loop writes, but the
	// Runner writes its own row every 15 s, or each minute while Hints are live (where the store
	// has [store.CanCountOpen] and [store.CanKeepTexts]), which counts alike.
	Store PartHealth `json:"store"`
	// Ledger covers submissions and status queries. Busy, or a refusal of a batch, counts as
	// an answer. An unreachable ledger, a refusal of this client and no answer count as
	// failures. Of a [dlt.Router] it fails once each of its ledgers does. Ledgers has those that
	// were asked, by name; it is nil for a client of one ledger.
	Ledger  PartHealth            `json:"ledger"`
	Ledgers map[string]PartHealth `json:"ledgers,omitempty"`
	// Streams covers the ledger's own events, where it has them. It fails while any stream is
	// lost; batches are then polled, more slowly. LostStreams names the services of lost
	// streams, "" for the stream of a whole ledger.
	Streams     PartHealth        `json:"streams"`
	LostStreams []batch.ServiceID `json:"lost_streams,omitempty"`
	// Loops are this Runner's loops, by name. "queuer", "monitor", "recorder", "keeper" and
	// "retention" fail with the store. "submitter" fails with submissions to the ledger,
	// "statuses" with queries to it; of a [dlt.Router] once they fail for each of its ledgers.
	Loops map[string]PartHealth `json:"loops,omitempty"`
	// Pool is the number of POSTs under way, of Options.Pool, and StatusConnections that of status
	// requests, of Options.StatusConnections. A request that hangs gives its place to others, so
	// Busy may be greater than Size.
	Pool              Use `json:"pool,omitzero"`
	StatusConnections Use `json:"status_connections,omitzero"`
	// Claims is how many batches this Runner has claimed whose outcome it has not written yet.
	Claims int `json:"claims,omitzero"`
	// OpenStreams is how many event streams of the ledger this Runner follows, without
	// LostStreams.
	OpenStreams int `json:"open_streams,omitzero"`
	// Hints tells whether this Runner gets hints of what other processes do, so that it acts at
	// once. Without hints it finds that by scans (Options.ScanInterval).
	Hints Hints `json:"hints,omitzero"`
	// Rest is Options.Rest: while nothing is open, the loops and the counting of batches run once
	// in each Rest. The verdict takes that into account.
	Rest time.Duration `json:"rest,omitzero"`
	// Counts are the latest counts of all batches of the database that this Runner has read.
	Counts Counts `json:"counts,omitzero"`
	// Warnings are the store's own warnings about something that is not wrong yet but gets
	// worse by itself: for example that SQLite's log is larger than its option allows. They
	// are refreshed once a second. Each warning is an EventTrouble when it begins, and stands
	// here until it is over.
	Warnings []error `json:"-"` // in JSON their texts, as warnings
	// WarningsSince is since when the oldest of Warnings lasts; zero if there are none.
	WarningsSince time.Time `json:"warnings_since,omitzero"`
	// LostEvents has, for each of Options.Observers, the number of events that it has lost since
	// New, because it was too slow. It is nil while none has lost any.
	LostEvents []uint64 `json:"lost_events,omitempty"`
	// DroppedTraces is how many trace contexts this Runner has dropped since New because they were
	// not valid: those of batches, and those of Options.TraceParent. The batches were added
	// without a trace context.
	DroppedTraces uint64 `json:"dropped_traces,omitzero"`
	// Trouble is the last unexpected failure of any kind, and TroubleAt its time. It is nil if
	// there was no failure for [FailureMemory]. The failure may be over, so the verdict takes no
	// notice of it.
	Trouble   error     `json:"-"` // in JSON its text, as trouble
	TroubleAt time.Time `json:"trouble_at,omitzero"`
}

// Use is how much of something bounded is in use.
type Use struct {
	Busy int `json:"busy"`
	Size int `json:"size"`
}

// Hints tells whether a Runner receives hints from other processes (store.CanHint).
type Hints struct {
	Live  bool      `json:"live"`
	Since time.Time `json:"since,omitzero"` // since when Live has its value
	// Way is how hints arrive, such as "LISTEN on a connection beside pgx's pool"; "" while not
	// Live.
	Way string `json:"way,omitzero"`
	// Err is why no hints arrive. It is nil while Live, and while the Runner tries to listen. In
	// JSON it is the text, as error.
	Err error `json:"-"`
}

// MarshalJSON writes the error as its text.
func (h Hints) MarshalJSON() ([]byte, error) {
	type plain Hints
	return json.Marshal(struct {
		plain
		Err string `json:"error,omitzero"`
	}{plain(h), errorText(h.Err)})
}

// UnmarshalJSON reads the output of MarshalJSON. The error comes back as a text only.
func (h *Hints) UnmarshalJSON(data []byte) error {
	type plain Hints
	v := struct {
		*plain
		Err string `json:"error"`
	}{plain: (*plain)(h)}
	err := json.Unmarshal(data, &v)
	h.Err = textError(v.Err)
	return err
}

// PauseMemory is how long [Health] shows a pause that is over while nothing waits. It is longer
// than a waiting batch takes to be found and sent as a probe.
const PauseMemory = time.Minute

// MarshalJSON writes errors as their texts, and leaves out fields that do not apply.
func (h Health) MarshalJSON() ([]byte, error) {
	type plain Health
	return json.Marshal(struct {
		plain
		Warnings []string `json:"warnings,omitempty"`
		Trouble  string   `json:"trouble,omitzero"`
	}{plain(h), errorTexts(h.Warnings), errorText(h.Trouble)})
}

// UnmarshalJSON reads the output of MarshalJSON. Errors come back as texts only.
func (h *Health) UnmarshalJSON(data []byte) error {
	type plain Health
	v := struct {
		*plain
		Warnings []string `json:"warnings"`
		Trouble  string   `json:"trouble"`
	}{plain: (*plain)(h)}
	err := json.Unmarshal(data, &v)
	h.Warnings, h.Trouble = nil, textError(v.Trouble)
	for _, text := range v.Warnings {
		h.Warnings = append(h.Warnings, textError(text))
	}
	return err
}

// MarshalJSON writes the error as its text, and leaves out fields that do not apply.
func (p PartHealth) MarshalJSON() ([]byte, error) {
	type plain PartHealth
	return json.Marshal(struct {
		plain
		Err string `json:"error,omitzero"`
	}{plain(p), errorText(p.Err)})
}

// UnmarshalJSON reads the output of MarshalJSON. The error comes back as a text only.
func (p *PartHealth) UnmarshalJSON(data []byte) error {
	type plain PartHealth
	v := struct {
		*plain
		Err string `json:"error"`
	}{plain: (*plain)(p)}
	err := json.Unmarshal(data, &v)
	p.Err = textError(v.Err)
	return err
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func errorTexts(errs []error) (texts []string) {
	for _, err := range errs {
		texts = append(texts, errorText(err))
	}
	return texts
}

func textError(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}
