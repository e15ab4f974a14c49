package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

// prove compares the orders' records, and the transfers, with the participant's journal and books,
// which no worker writes.
func prove(out io.Writer, all []transfer, records map[order.ID]order.Record, journal []cantontest.Entry, books map[string]int64) error {
	l := summarize(journal)
	printBooks(out, books)
	fmt.Fprintf(out, "\nPoisonous, each refused alone:\n")
	var wrong []error
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	want, good := map[string]int64{}, 0
	var took []time.Duration
	for _, t := range all {
		rec, times := records[t.id], l.executed[t.Note]
		if rec.State == order.Quarantined {
			fmt.Fprintf(out, "  %s  %s to %s, %d: %s\n", t.id, shortName(string(t.from)), shortName(t.To), t.Amount, rec.Error.Message)
		}
		if t.Poison != "" {
			switch {
			case times != 0:
				complain("%s is poisonous and took effect %d times", t.id, times)
			case rec.State != order.Quarantined:
				complain("%s is poisonous and %s, want %s", t.id, rec.State, order.Quarantined)
			case l.refusedAlone[t.Note] == 0:
				complain("%s is quarantined, and was never refused alone", t.id)
			}
			continue
		}
		good++
		if times != 1 {
			complain("%s took effect %d times, want once", t.id, times)
		}
		if rec.State != order.Confirmed {
			complain("%s is %s, want %s", t.id, rec.State, order.Confirmed)
		}
		for name, change := range map[string]int64{string(t.from): -t.Amount, t.To: t.Amount} {
			if _, known := want[name]; !known {
				want[name] = openingBalance
			}
			want[name] += change
		}
		took = append(took, rec.FinalAt.Sub(rec.CreatedAt))
	}
	if n := len(l.executed); n > good {
		complain("%d transfers took effect, and %d were asked for", n, good)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if books[name] != want[name] {
			complain("%s has %d, want %d", name, books[name], want[name])
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("THE BOOKS DO NOT AGREE: %w", errors.Join(wrong[:min(10, len(wrong))]...))
	}
	slices.Sort(took)
	at := func(q float64) time.Duration {
		return took[int(q*float64(len(took)-1))].Round(10 * time.Millisecond)
	}
	fmt.Fprintf(out, "\n  submissions  %d for %d transfers, %.1f each; %d of them to find the poisonous ones, %d sent again\n",
		l.postCount, len(all), float64(len(all))/float64(max(1, l.postCount)), l.refusedCount, l.postCount-l.commandCount)
	if len(took) > 0 {
		fmt.Fprintf(out, "  a transfer   took %s p50, %s p99 from Add to its outcome, crash included\n", at(.5), at(.99))
	}
	fmt.Fprintf(out, "THE BOOKS AGREE: %d good transfers took effect, each exactly once, and none of %d poisonous ones\n", good, len(all)-good)
	return nil
}

// journalSummary is a summary of the participant's journal.
type journalSummary struct {
	postCount, commandCount int            // number of POSTs, and of distinct commands in them
	refusedCount            int            // number of refused submissions
	executed                map[string]int // number of executions, by note
	refusedAlone            map[string]int
}

func summarize(journal []cantontest.Entry) journalSummary {
	l := journalSummary{executed: map[string]int{}, refusedAlone: map[string]int{}}
	commands := map[string]bool{}
	for _, e := range journal {
		switch e.Kind {
		case cantontest.Posted:
			l.postCount++
			commands[e.CommandID] = true
		case cantontest.Executed:
			for _, t := range e.Transfers {
				l.executed[t.Note]++
			}
		case cantontest.Refused, cantontest.Rejected:
			l.refusedCount++
			if len(e.Transfers) == 1 {
				l.refusedAlone[e.Transfers[0].Note]++
			}
		}
	}
	l.commandCount = len(commands)
	return l
}

// printBooks prints the balances, five per line.
func printBooks(out io.Writer, books map[string]int64) {
	fmt.Fprintf(out, "\nThe participant's books, where everybody began with %d:\n", openingBalance)
	for row := range slices.Chunk(slices.Sorted(maps.Keys(books)), 5) {
		for _, name := range row {
			fmt.Fprintf(out, "  %s %7d", shortName(name), books[name])
		}
		fmt.Fprintln(out)
	}
}

// shortName returns a party's name without its fingerprint.
func shortName(party string) string {
	name, _, _ := strings.Cut(party, "::")
	return name
}
