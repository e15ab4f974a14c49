package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
)

// causesKnown are the causes by which a filter may select.
var causesKnown = []batch.Cause{
	batch.CauseReady, batch.CausePaused, batch.CauseHalted, batch.CauseDelayed, batch.CauseBehind, batch.CauseInFlight, batch.CauseHeld,
	batch.CauseClaimed, batch.CauseInDoubt, batch.CauseDecision, batch.CauseLedger, batch.CauseSettling, batch.CauseFinal, batch.CauseQuarantined,
	operator.CauseUnknown,
}

// filtering gives a command the flags of a filter. read sets the filter by them.
func filtering(c *cobra.Command, to *operator.Filter) (read func() error) {
	var service string
	var states, kinds, causes []string
	f := c.Flags()
	f.StringVar(&service, "service", "", "only this `SERVICE`")
	f.StringSliceVar(&states, "state", nil, "only these states")
	f.StringSliceVar(&kinds, "error", nil, "only with these kinds of the last error, such as rejected")
	f.StringSliceVar(&causes, "cause", nil, "only these causes, as dltbatch causes has them")
	f.DurationVar(&to.OlderThan, "older-than", 0, "at least this old")
	f.DurationVar(&to.NewerThan, "newer-than", 0, "younger than this")
	complete(c, "state", words(batch.States()))
	complete(c, "cause", texts(causesKnown))
	return func() (err error) {
		if f.Changed("service") {
			to.Service = (*batch.ServiceID)(&service)
		}
		if to.States, err = parse[batch.State](states); err != nil {
			return err
		}
		for _, k := range kinds {
			to.Kinds = append(to.Kinds, batch.ErrorKind(k))
		}
		for _, cause := range causes {
			if !slices.Contains(causesKnown, batch.Cause(cause)) {
				return fmt.Errorf("%w: there is no cause %q", errUsage, batch.Excerpt(cause, 64))
			}
			to.Causes = append(to.Causes, batch.Cause(cause))
		}
		return nil
	}
}

func (a *app) search() *cobra.Command {
	var q operator.SearchQuery
	c := &cobra.Command{
		Use: "search [flags]", Short: "Open batches by what no index finds",
		Long: `Reads the open batches, the oldest first, and lists those with all the given properties. It ends after --within,
and says when it did not see all. A batch whose id or DataChangeID is known is found at once by "dltbatch
show". Payloads are never shown. The JSON is operator.Searched.`,
	}
	read := filtering(c, &q.Filter)
	f := c.Flags()
	f.StringVar((*string)(&q.Prefix), "prefix", "", "only ids that begin with this `TEXT`")
	f.StringVar(&q.Trace, "trace", "", "only those added within the trace of this `ID`, 32 hexadecimal digits")
	f.IntVar(&q.Attempts, "attempts", 0, "at least so many attempts")
	f.IntVar(&q.Limit, "limit", 100, "how many at most, up to 1000")
	f.DurationVar(&q.Within, "within", 0, "how long to search (default 2s)")
	return a.command(c, func(ctx context.Context, db *database, _ []string) error {
		if err := read(); err != nil {
			return err
		}
		found, err := db.desk.Search(ctx, q)
		if err != nil {
			return err
		}
		return a.print(found, func(p *page) {
			p.batches(found.Batches)
			if found.Incomplete {
				p.line("there may be more: the search ended after %d open batches", found.Looked)
			}
		})
	})
}
