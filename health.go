package dltbatch

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Condition is how something is that a Runner needs.
type Condition uint8

// The conditions.
const (
	// ConditionIdle: nothing is known. It was not needed yet, or not for so long that an
	// old failure says nothing any more.
	ConditionIdle Condition = iota
	// ConditionOK: what was tried last succeeded.
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

// UnmarshalText reads what MarshalText writes. The error is a [*batch.InputError].
func (c *Condition) UnmarshalText(text []byte) error {
	i := slices.Index(conditionNames[:], string(text))
	if i < 0 {
		return &batch.InputError{Field: "Condition", Value: batch.Excerpt(string(text), 64), Want: "idle, ok or failing"}
	}
	*c = Condition(i)
	return nil
}

// PartHealth is how one part is. Times are this process's.
type PartHealth struct {
	Condition Condition `json:"condition"`
	// LastSuccess is zero where there was none since Run began.
	LastSuccess time.Time `json:"last_success,omitzero"`
	// FailingSince is when what failed first was begun, after the last success; zero where
	// the part does not fail. It and what follows are cleared by the next success, and
	// where nothing has been tried for [HealthMemory].
	FailingSince time.Time `json:"failing_since,omitzero"`
	Failures     int       `json:"failures,omitzero"` // since then
	Err          error     `json:"-"`                 // the last of them; in JSON its text, as error
}

// HealthMemory is for how long a failure counts after which nothing was tried: longer than
// any loop pauses by itself.
const HealthMemory = 5 * time.Minute

// Health is how a Runner is doing: data for readiness probes and for people.
//
// A Runner that has nothing to do stays as it is: it looks at the store every
// Options.ScanInterval and PollInterval, which is what Store goes by then, while nothing is
// asked of the ledger. One statement that fails makes a part ConditionFailing until the next
// succeeds: who is not to be bothered by that looks at how long ago FailingSince is.
type Health struct {
	Running bool `json:"running"`
	// Paused says that nothing is posted at present: the ledger is busy, not reached,
	// or refuses this client. PausedServices names single services.
	Paused         bool              `json:"paused"`
	PausedServices []batch.ServiceID `json:"paused_services,omitempty"`
	// HaltedServices are those whose lanes this Runner has halted because the ledger took back
	// what it had executed, again and again ([batch.Control].HaltReason says it), until
	// something of theirs is accepted again.
	HaltedServices []batch.ServiceID `json:"halted_services,omitempty"`
	// HeldServices names those that are not served: their ledger cannot do what the options
	// need, or they belong to another. Explain of a batch and batch.EventLaneHeld say why.
	HeldServices []batch.ServiceID `json:"held_services,omitempty"`
	// Store is the database, as all loops see it: whatever succeeds there clears it.
	Store PartHealth `json:"store"`
	// Ledger is what is sent to it and asked of it. That it refuses a batch or is busy is an
	// answer; that it is not reached, refuses this client or gives no answer is none.
	Ledger PartHealth `json:"ledger"`
	// Streams is what the ledger tells by itself, where it does: failing while any stream is
	// lost. Then what it would have told is polled, more slowly. LostStreams names the
	// services of those, "" for the stream of a whole ledger.
	Streams     PartHealth        `json:"streams"`
	LostStreams []batch.ServiceID `json:"lost_streams,omitempty"`
	// Loops are this Runner's, by name. "queuer", "monitor", "recorder", "keeper" and
	// "retention" fail where the store does; "submitter" and "statuses", where the ledger
	// does: with what is sent to it, and with what it is asked.
	Loops map[string]PartHealth `json:"loops,omitempty"`
	// Warnings are what the store says of itself that is not wrong yet and gets worse by
	// itself, as it was when it was last looked at, which is once a second: that SQLite's
	// log has grown larger than its option allows, say. Each is an EventTrouble when it
	// begins; here it stands until it is over.
	Warnings []error `json:"-"` // in JSON their texts, as warnings
	// Trouble is the last unexpected failure, at TroubleAt, of whatever it was; nil where
	// there was none for [HealthMemory].
	Trouble   error     `json:"-"` // in JSON its text, as trouble
	TroubleAt time.Time `json:"trouble_at,omitzero"`
}

// Health returns how this Runner is doing. It does no I/O.
func (r *Runner) Health() Health { return r.health.look(time.Now()) }

// MarshalJSON writes errors as their texts, and leaves out what does not apply.
func (h Health) MarshalJSON() ([]byte, error) {
	type plain Health
	return json.Marshal(struct {
		plain
		Warnings []string `json:"warnings,omitempty"`
		Trouble  string   `json:"trouble,omitzero"`
	}{plain(h), errorTexts(h.Warnings), errorText(h.Trouble)})
}

// UnmarshalJSON reads what MarshalJSON writes. Of errors it has the texts only.
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

// MarshalJSON writes the error as its text, and leaves out what does not apply.
func (p PartHealth) MarshalJSON() ([]byte, error) {
	type plain PartHealth
	return json.Marshal(struct {
		plain
		Err string `json:"error,omitzero"`
	}{plain(p), errorText(p.Err)})
}

// UnmarshalJSON reads what MarshalJSON writes. Of the error it has the text only.
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

// health is what a Runner's Health is made of.
type health struct {
	mu        sync.Mutex
	vitals    *vitals // of the Run that runs
	paused    bool
	services  map[batch.ServiceID]struct{}
	halted    map[batch.ServiceID]struct{}
	held      map[batch.ServiceID]struct{}
	warnings  []store.Warning
	trouble   error
	troubleAt time.Time
}

func (h *health) started(v *vitals) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.vitals = v
}

func (h *health) stopped() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.vitals, h.paused, h.services, h.halted, h.held, h.warnings = nil, false, nil, nil, nil, nil
}

func (h *health) troubled(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trouble, h.troubleAt = err, time.Now()
}

// hold says that a service is not served by the Run that runs, or is by now.
func (h *health) hold(s batch.ServiceID, held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !held {
		delete(h.held, s)
		return
	}
	if h.held == nil {
		h.held = map[batch.ServiceID]struct{}{}
	}
	h.held[s] = struct{}{}
}

func (h *health) pause(s batch.ServiceID, all, paused bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case all:
		h.paused = paused
	case paused:
		if h.services == nil {
			h.services = map[batch.ServiceID]struct{}{}
		}
		h.services[s] = struct{}{}
	default:
		delete(h.services, s)
	}
}

func (h *health) halt(s batch.ServiceID, halted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !halted:
		delete(h.halted, s)
	case h.halted == nil:
		h.halted = map[batch.ServiceID]struct{}{s: {}}
	default:
		h.halted[s] = struct{}{}
	}
}

// look is the health as it is now.
func (h *health) look(now time.Time) Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := Health{Running: h.vitals != nil, Paused: h.paused}
	for s := range h.services {
		all.PausedServices = append(all.PausedServices, s)
	}
	slices.Sort(all.PausedServices)
	all.HaltedServices = slices.Sorted(maps.Keys(h.halted))
	all.HeldServices = slices.Sorted(maps.Keys(h.held))
	if h.vitals != nil {
		h.vitals.look(now, &all)
	}
	for _, w := range h.warnings {
		all.Warnings = append(all.Warnings, w.Err)
	}
	if h.trouble != nil && now.Sub(h.troubleAt) < HealthMemory {
		all.Trouble, all.TroubleAt = h.trouble, h.troubleAt
	}
	return all
}
