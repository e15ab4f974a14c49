// Package probe answers whether a process that runs a Runner is alive, and whether it is ready,
// over HTTP: for Kubernetes, for a load balancer, for curl. It looks at [health.Health], so that
// an answer costs no call to the database or the ledger, and changes with the Runner's own work.
// With [Options].Oldest it also reads the counts of the database.
package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/internal/isnil"
	"github.com/dltbatch/dltbatch/store"
)

// Source is the source of a Health, such as a dltbatch.Runner.
type Source interface {
	Health() health.Health
}

// Options of the handlers. The zero value of every field means its default. A negative duration
// means for ever: the part is shown, and never makes the answer 503.
type Options struct {
	// Silence is how long a loop that always has work may make no progress before [Live] answers
	// 503. Defaults to 10 min. It must be longer than the ScanInterval and the PollInterval of the
	// Runner; its Rest is added.
	Silence time.Duration
	// Store is how long the database may fail before [Ready] answers 503. Defaults to 10 s.
	Store time.Duration
	// Ledger is how long the ledger may fail before [Ready] answers 503. Defaults to 5 min. A
	// service that takes requests can do so without its ledger: it adds batches, and they are sent
	// later. Choose -1 for such a service.
	Ledger time.Duration
	// Streams is how long an event stream of the ledger may be lost before [Ready] answers 503.
	// Defaults to 5 min. Without streams batches are polled, so -1 suits a service that takes
	// requests.
	Streams time.Duration
	// Oldest is how old the oldest batch that is not final may be before [Ready] says 503, in the
	// whole database: so all instances say it together. The age is the one at the last count
	// (dltbatch.Runner.Stats), which running instances repeat. Each answer reads the counts once,
	// and waits a second at most; where they cannot be read, Store decides. The source must have
	// Stats, as a Runner has. Defaults to no limit. A service that takes requests mostly wants the
	// alert DltbatchOldestBatch in its place (docs/operations.md#alerts).
	Oldest time.Duration
}

// statsReader is a source that knows the counts of open batches.
type statsReader interface {
	Stats(ctx context.Context) (store.Stats, error)
}

// statsTimeLimit is how long an answer waits for the counts.
const statsTimeLimit = time.Second

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
// again, or have nothing to do because Run does not run. It answers 503 if a loop has stopped, or
// if a call to the database ignores its deadline. A database or a ledger that is down is no reason
// to restart. nil options mean the defaults.
//
// The body is JSON: ok, why (a list of sentences, if it is not), health ([health.Health]), and
// attention (the whole verdict, [health.Health.Attention], which may have more than why). It names
// services and hosts, so serve it where only operators look.
func Live(s Source, o *Options) http.Handler {
	c := o.withDefaults()
	c.Oldest = 0 // a restart would not help
	return handler{s, c, whyNotLive}
}

// Ready answers 200 while Run runs, has reached the database, with a schema that its code knows,
// and neither the database, which also has to take writes, nor the ledger, nor any of the ledger's
// streams of events has failed for longer than the options allow ([health.Health.Attention]), and
// no batch has been open for longer than [Options].Oldest. Otherwise it answers 503, and 200 again
// as soon as the cause is over. The body is that of [Live]. nil options mean the defaults.
func Ready(s Source, o *Options) http.Handler {
	return handler{s, o.withDefaults(), whyNotReady}
}

type handler struct {
	source  Source
	options Options
	reasons func(h health.Health, o Options, now time.Time) []string
}

// whyOldest returns the cause if a batch has been open for longer than Oldest.
func (h handler) whyOldest(ctx context.Context) []string {
	if h.options.Oldest <= 0 {
		return nil
	}
	source, ok := h.source.(statsReader)
	if !ok {
		return []string{fmt.Sprintf("oldest batch: Options.Oldest wants a source with Stats, and %T has none", h.source)}
	}
	ctx, cancel := context.WithTimeout(ctx, statsTimeLimit)
	defer cancel()
	s, err := source.Stats(ctx)
	if err != nil || s.Oldest.IsZero() {
		return nil // Options.Store is the time for which the database may fail
	}
	if old := s.At.Sub(s.Oldest); old > h.options.Oldest {
		return []string{fmt.Sprintf("oldest batch: open for %s, when it was counted %s ago", old.Round(time.Second), s.Age.Round(time.Second))}
	}
	return nil
}

// ServeHTTP answers every request in the same way.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isnil.Is(h.source) {
		http.Error(w, "probe: no source, such as a *dltbatch.Runner, was given", http.StatusServiceUnavailable)
		return
	}
	now, all := time.Now(), h.source.Health()
	why := append(h.reasons(all, h.options, now), h.whyOldest(r.Context())...)
	body, err := json.Marshal(struct {
		OK        bool               `json:"ok"`
		Why       []string           `json:"why,omitempty"`
		Health    health.Health      `json:"health"`
		Attention []health.Attention `json:"attention,omitempty"`
	}{len(why) == 0, why, all, all.Attention(now)})
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

// whyNotLive returns which loops have stopped. Queuer and monitor read the database all the time;
// the other loops wait for work.
func whyNotLive(h health.Health, o Options, now time.Time) (why []string) {
	if !h.Running || o.Silence < 0 {
		return nil
	}
	for _, name := range []string{"queuer", "monitor"} {
		p := h.Loops[name]
		switch since := p.NoAnswerSince; {
		case !since.IsZero():
			if now.Sub(since) > o.Silence {
				why = append(why, fmt.Sprintf("%s: %v for %s", name, health.ErrNoAnswer, ageOf(now, since)))
			}
		case p.Condition != health.ConditionFailing:
			if last := p.LastSuccess; !last.IsZero() && now.Sub(last) > o.Silence+h.Rest {
				why = append(why, fmt.Sprintf("%s: has done nothing for %s", name, ageOf(now, last)))
			}
		}
	}
	return why
}

// whyNotReady returns the causes about the parts that may fail only for the time in the options.
// Other causes are no reason to send requests to another instance.
func whyNotReady(h health.Health, o Options, now time.Time) (why []string) {
	may := map[string]time.Duration{
		health.PartRun: 0, health.PartDatabase: o.Store, health.PartLedger: o.Ledger, health.PartStreams: o.Streams,
	}
	for _, a := range h.Attention(now) {
		patience, known := may[a.Part]
		if known && patience >= 0 && (a.Since.IsZero() || now.Sub(a.Since) > patience) {
			why = append(why, attentionText(a))
		}
	}
	return why
}

func attentionText(a health.Attention) string {
	if a.Part == health.PartRun {
		return a.Text
	}
	return a.String()
}

func ageOf(now, since time.Time) time.Duration { return now.Sub(since).Round(time.Second) }
