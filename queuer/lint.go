package queuer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
)

// LintOptions are the options of [Lint].
type LintOptions struct {
	// Address is the length of an address of a single thing. Defaults to 70, the length in
	// Sawtooth and Splinter.
	Address int
	// Namespace is the length up to which a prefix covers an application's whole state.
	// Defaults to 6, as in Sawtooth and Splinter.
	Namespace int
	// Queued is how many waiting batches of a lane Lint looks at, as in [Parallel]. Defaults
	// to [DefaultQueued].
	Queued int
}

// Report says how much of a workload could leave at once. Its String is for people.
type Report struct {
	Batches int
	Lanes   int
	// Rounds is how many times the workload waits for the ledger until all batches are final,
	// if all batches that may leave do so and are final before the next round: with
	// [Parallel]. SerialRounds is the same one by one. Lanes do not wait for each other, so
	// the longest lane counts.
	Rounds, SerialRounds int

	Unknown    int // batches that declare nothing, and so wait for everything
	Namespaces int // others that declare a whole namespace, or the whole state
	Wide       int // others that declare a part of a namespace, wider than single addresses
	Narrow     int // the rest
	// Dependent batches wait for another's transaction by name.
	Dependent int

	// Shared are the entries that most batches declare and at least one writes, most first, up
	// to 5: while a batch that writes the entry is open, none of the others may leave.
	Shared []Shared

	address, namespace int // see LintOptions
}

// Shared is an entry of several footprints of one lane.
type Shared struct {
	Service batch.ServiceID
	Prefix  string
	Batches int // that read or write it
	Writers int // that write it
}

type entry struct {
	service batch.ServiceID
	prefix  string
}

// tally counts an entry.
type tally struct {
	Shared
	declared, wrote int // the number of the last batch that was counted, from 1
}

// Lint reports how wide the state is that these batches declare, and how many of them leave at
// once with [Parallel]. batches are in the order of their lanes. Lint takes as long as the
// decisions of all rounds. nil options are the defaults.
func Lint(batches []batch.Batch, o *LintOptions) Report {
	if o == nil {
		o = &LintOptions{}
	}
	r := Report{Batches: len(batches), address: cmp.Or(o.Address, 70), namespace: cmp.Or(o.Namespace, 6)}
	lanes := map[batch.ServiceID][]batch.Waiting{}
	shared := map[entry]*tally{}
	for i, b := range batches {
		r.width(b.Footprint)
		r.share(shared, b, i+1)
		lanes[b.Service] = append(lanes[b.Service], batch.Waiting{ID: b.ID, State: batch.Queued, Ready: true, Footprint: b.Footprint})
	}
	r.Lanes = len(lanes)
	s := &Parallel{Queued: o.Queued}
	for _, lane := range lanes {
		r.SerialRounds = max(r.SerialRounds, len(lane))
		r.Rounds = max(r.Rounds, emptied(s, lane))
	}
	for _, sh := range shared {
		if sh.Batches > 1 && sh.Writers > 0 {
			r.Shared = append(r.Shared, sh.Shared)
		}
	}
	slices.SortFunc(r.Shared, func(a, b Shared) int {
		return cmp.Or(b.Batches-a.Batches, b.Writers-a.Writers, strings.Compare(a.Prefix, b.Prefix), cmp.Compare(a.Service, b.Service))
	})
	r.Shared = slices.Clip(r.Shared[:min(5, len(r.Shared))])
	return r
}

// emptied counts the rounds that empty a lane.
func emptied(s *Parallel, lane []batch.Waiting) (rounds int) {
	for ; len(lane) > 0; rounds++ {
		window := lane[:min(len(lane), s.Window())]
		left := lane[:0:0]
		from := 0
		for _, run := range s.Select(batch.Lane{Batches: window}) {
			left = append(left, lane[from:run[0]]...)
			from = run[0] + 1
		}
		lane = append(left, lane[from:]...)
	}
	return rounds
}

// width counts a batch by the widest prefix that it declares.
func (r *Report) width(f batch.Footprint) {
	shortest, known := r.address, false
	for _, list := range [...][]string{f.Reads, f.Writes} {
		for _, p := range list {
			if !batch.IsTransactionMark(p) {
				shortest, known = min(shortest, len(p)), true
			}
		}
	}
	if slices.ContainsFunc(f.Reads, batch.IsTransactionMark) {
		r.Dependent++
	}
	switch {
	case f.Empty():
		r.Unknown++
	case known && shortest <= r.namespace:
		r.Namespaces++
	case known && shortest < r.address:
		r.Wide++
	default:
		r.Narrow++
	}
}

// share counts batch number i at each of its entries.
func (r *Report) share(all map[entry]*tally, b batch.Batch, i int) {
	count := func(p string, write bool) {
		if batch.IsTransactionMark(p) {
			return
		}
		e := entry{b.Service, p}
		s := all[e]
		if s == nil {
			s = &tally{Shared: Shared{Service: b.Service, Prefix: p}}
			all[e] = s
		}
		if s.declared != i {
			s.declared = i
			s.Batches++
		}
		if write && s.wrote != i {
			s.wrote = i
			s.Writers++
		}
	}
	for _, p := range b.Footprint.Writes {
		count(p, true)
	}
	for _, p := range b.Footprint.Reads {
		count(p, false)
	}
}

// String explains the numbers and says how to improve them.
func (r Report) String() string {
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	if r.Batches == 0 {
		return "No batches, nothing to say.\n"
	}
	line("%s in %s: %s with conflict-aware lanes, %d one by one.",
		count(r.Batches, "batch", "batches"), count(r.Lanes, "lane", "lanes"), count(r.Rounds, "round", "rounds"), r.SerialRounds)
	switch {
	case r.SerialRounds == 1:
		line("No lane has more than one batch: there is nothing to do at once.")
	case r.Rounds == r.SerialRounds:
		line("Nothing is gained: every batch waits for the one before it.")
	default:
		line("That is %.1f times as fast, as far as waiting for the ledger goes.", float64(r.SerialRounds)/float64(r.Rounds))
	}
	if r.Unknown > 0 {
		line("%s: what is not known conflicts with everything. (So do settings and identities.)", count(r.Unknown, "declares nothing", "declare nothing"))
	}
	if r.Namespaces > 0 {
		line("%s. Whole namespaces gain nothing: such a batch waits for all others of the namespace, and they for it. Declare the addresses that it touches.",
			count(r.Namespaces, "declares a whole namespace", "declare whole namespaces"))
	}
	if r.Wide > 0 {
		line("%s of less than %d digits: they wait for everything below them.", count(r.Wide, "declares a prefix", "declare prefixes"), r.address)
	}
	if r.Narrow > 0 {
		line("%s only.", count(r.Narrow, "declares single addresses", "declare single addresses"))
	}
	if r.Dependent > 0 {
		line("%s by name.", count(r.Dependent, "waits for another", "wait for others"))
	}
	for _, sh := range r.Shared {
		what := "The prefix"
		switch {
		case sh.Prefix == "":
			what = "The whole state"
		case len(sh.Prefix) <= r.namespace:
			what = "The namespace"
		case len(sh.Prefix) >= r.address:
			what = "The address"
		}
		line("%s is declared by %d and written by %d of them: while one that writes it is open, none of the others leaves.", strings.TrimSpace(what+" "+sh.Prefix), sh.Batches, sh.Writers)
	}
	return s.String()
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
