// Package probe answers whether a process that runs a Runner is alive, and whether it is ready, over
// HTTP: for Kubernetes, for a load balancer, for curl. It looks at [dltbatch.Health] and at nothing
// else, so that an answer costs no call to the database or the ledger, and changes with the Runner's
// own work.
package probe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/dltbatch/dltbatch"
)

// Source has a Health: a [*dltbatch.Runner].
type Source interface {
	Health() dltbatch.Health
}

// Options of the handlers. The zero value of every field means its default. A negative duration
// means for ever: the part is shown, and never makes the answer 503.
type Options struct {
	// Silence is how long a loop that always has something to do may show no sign of life before
	// [Live] says 503. Defaults to 10 min. It must be longer than the ScanInterval and the
	// PollInterval of the Runner.
	Silence time.Duration
	// Store is how long the database may fail before [Ready] says 503. Defaults to 10 s.
	Store time.Duration
	// Ledger is the same for the ledger. Defaults to 5 min. A service that takes requests can do
	// so without its ledger: it adds batches, and they leave later. Choose -1 there.
	Ledger time.Duration
	// Streams is the same for the ledger's events. Defaults to 5 min. Without them batches are
	// polled, so -1 suits a service that takes requests.
	Streams time.Duration
}

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&c.Silence, 10 * time.Minute}, {&c.Store, 10 * time.Second}, {&c.Ledger, 5 * time.Minute}, {&c.Streams, 5 * time.Minute}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	return c
}

// Live answers 200 as long as a restart would not help: the loops make progress, or fail and try
// again, or have nothing to do because Run does not run. It answers 503 if a loop has stopped, or if
// a call to the database ignores its deadline. A database or a ledger that is down is no reason to
// restart. nil options mean the defaults.
//
// The body is JSON: ok, why (a list of sentences, if it is not), and health ([dltbatch.Health]). It
// names services and hosts, so serve it where only operators look.
func Live(s Source, o *Options) http.Handler {
	return handler{s, o.withDefaults(), live}
}

// Ready answers 200 while Run runs, has reached the database (with a schema that its code knows), and
// neither the database nor the ledger nor any of its streams of events has failed for longer than the
// options allow; else 503. It answers 200 again as soon as they work. The body is that of [Live]. nil
// options mean the defaults.
func Ready(s Source, o *Options) http.Handler {
	return handler{s, o.withDefaults(), ready}
}

type handler struct {
	source Source
	o      Options
	why    func(h dltbatch.Health, o Options, now time.Time) []string
}

// ServeHTTP answers any request alike.
func (h handler) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	health := h.source.Health()
	why := h.why(health, h.o, time.Now())
	body, err := json.Marshal(struct {
		OK     bool            `json:"ok"`
		Why    []string        `json:"why,omitempty"`
		Health dltbatch.Health `json:"health"`
	}{len(why) == 0, why, health})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if len(why) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(append(body, '\n'))
}

// live says which loops have stopped. The loops that look at the database all the time are queuer
// and monitor; the others wait for work.
func live(h dltbatch.Health, o Options, now time.Time) (why []string) {
	if !h.Running || o.Silence < 0 {
		return nil
	}
	for _, name := range []string{"queuer", "monitor"} {
		p := h.Loops[name]
		switch since := p.NoAnswerSince; {
		case !since.IsZero():
			if now.Sub(since) > o.Silence {
				why = append(why, fmt.Sprintf("%s: %v for %s", name, dltbatch.ErrNoAnswer, age(now, since)))
			}
		case p.Condition != dltbatch.ConditionFailing:
			if last := p.LastSuccess; !last.IsZero() && now.Sub(last) > o.Silence {
				why = append(why, fmt.Sprintf("%s: has done nothing for %s", name, age(now, last)))
			}
		}
	}
	return why
}

func ready(h dltbatch.Health, o Options, now time.Time) (why []string) {
	if !h.Running {
		return []string{"Run does not run"}
	}
	if h.Store.LastSuccess.IsZero() && o.Store >= 0 {
		why = append(why, "database: not reached yet")
	}
	for _, part := range []struct {
		name   string
		health dltbatch.PartHealth
		may    time.Duration
	}{{"database", h.Store, o.Store}, {"ledger", h.Ledger, o.Ledger}, {"streams", h.Streams, o.Streams}} {
		if p := part.health; p.Condition == dltbatch.ConditionFailing && part.may >= 0 && now.Sub(p.FailingSince) > part.may {
			why = append(why, fmt.Sprintf("%s: has failed for %s: %v", part.name, age(now, p.FailingSince), p.Err))
		}
	}
	return why
}

func age(now, since time.Time) time.Duration { return now.Sub(since).Round(time.Second) }
