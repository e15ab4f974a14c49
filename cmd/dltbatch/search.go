package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/desks"
	"github.com/dltbatch/dltbatch/operator"
)

// knownCauses lists the causes by which a filter may select.
var knownCauses = []batch.Cause{
	batch.CauseReady, batch.CausePaused, batch.CauseHalted, batch.CauseDelayed, batch.CauseBehind, batch.CauseInFlight, batch.CauseHeld,
	batch.CauseUnserved, batch.CauseClaimed, batch.CauseInDoubt, batch.CauseDecision, batch.CauseLedger, batch.CauseSettling, batch.CauseFinal, batch.CauseQuarantined,
	operator.CauseUnknown,
}

// addFilterFlags gives a command the flags of a filter. read fills in the filter from the flags,
// and returns the databases to ask.
func (a *app) addFilterFlags(c *cobra.Command, to *operator.Filter) (read func(context.Context, *databases) (*databases, error)) {
	var tag string
	var states, kinds, causes []string
	f := c.Flags()
	f.String("service", "", "only this `SERVICE`")
	f.StringVar(&tag, "tag", "", "only with this tag: `NAME=VALUE`, or a value under any name")
	f.StringSliceVar(&states, "state", nil, "only these states")
	f.StringSliceVar(&kinds, "error", nil, "only with these kinds of the last error, such as rejected")
	f.StringSliceVar(&causes, "cause", nil, "only these causes, as dltbatch causes has them")
	f.DurationVar(&to.OlderThan, "older-than", 0, "at least this old")
	f.DurationVar(&to.NewerThan, "newer-than", 0, "younger than this")
	completeFlag(c, "state", textsOf(batch.States()))
	completeFlag(c, "error", asText(batch.ErrorKinds()))
	completeFlag(c, "cause", asText(knownCauses))
	return func(ctx context.Context, all *databases) (where *databases, err error) {
		if where, to.Service, err = a.laneOfFlag(ctx, all, c, "service"); err != nil {
			return nil, err
		}
		if f.Changed("tag") {
			if to.Tag, err = batch.ParseTag(tag); err != nil {
				return nil, fmt.Errorf("%w: %w", errUsage, err)
			}
		}
		if to.States, err = parse[batch.State](states); err != nil {
			return nil, err
		}
		if to.Kinds, err = parseWords("kind of error", batch.ErrorKinds(), kinds); err != nil {
			return nil, err
		}
		to.Causes, err = parseWords("cause", knownCauses, causes)
		return where, err
	}
}

// parseWords reads the values of a list flag.
func parseWords[T ~string](what string, all []T, words []string) (list []T, err error) {
	for _, word := range words {
		if !slices.Contains(all, T(word)) {
			return nil, fmt.Errorf("%w: there is no %s %q; there are %s", errUsage, what, batch.Excerpt(word, 64), strings.Join(asText(all), ", "))
		}
		list = append(list, T(word))
	}
	return list, nil
}

// checkFilters refuses a filter flag that was given and that every batch meets, such as
// --older-than=-24h, or --state= with an empty variable of a script. Ignoring the flag would make
// the command, such as a bulk action, apply to the whole store.
func checkFilters(c *cobra.Command) error {
	f := c.Flags()
	for _, name := range []string{"older-than", "newer-than"} {
		if d, err := f.GetDuration(name); err == nil && f.Changed(name) && d <= 0 {
			return fmt.Errorf("%w: --%s is %s: give an age above 0, such as 24h, or leave the flag out", errUsage, name, d)
		}
	}
	for _, name := range []string{"state", "error", "cause"} {
		if words, err := f.GetStringSlice(name); err == nil && f.Changed(name) && (len(words) == 0 || slices.Contains(words, "")) {
			return fmt.Errorf("%w: --%s has an empty word: give one word or more, or leave the flag out", errUsage, name)
		}
	}
	for _, name := range []string{"trace", "batch"} {
		if id, err := f.GetString(name); err == nil && f.Changed(name) && id == "" {
			return fmt.Errorf("%w: --%s is empty: give an id, or leave the flag out", errUsage, name)
		}
	}
	return nil
}

// checkNames refuses an argument or a flag that no store accepts as a name, before a store is
// asked: databases refuse some names with errors of their own, which would look like failures
// (exit code 1). The argument FILE of a bulk run is not a name, and every store refuses a bad
// cursor of --after itself.
func checkNames(c *cobra.Command, args []string) error {
	for i, arg := range args {
		if strings.Contains(c.Use, "FILE") || arg == "" {
			continue // an empty SERVICE is a lane, and the other commands refuse an empty argument themselves
		}
		if err := checkName(fmt.Sprintf("argument %d", i+1), arg); err != nil {
			return err
		}
	}
	f := c.Flags()
	for _, flag := range []string{"service", "party", "lane", "batch", "data-change-id"} {
		if text, err := f.GetString(flag); err == nil && text != "" {
			if err := checkName("--"+flag, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkName checks a name.
func checkName(of, text string) error {
	err := (batch.Key{ID: batch.ID(text)}).Validate()
	if in, is := errors.AsType[*batch.InputError](err); is {
		return fmt.Errorf("%w: %w", errUsage, &batch.InputError{Field: of, Value: in.Value, Want: in.Want})
	}
	return err
}

func (a *app) search() *cobra.Command {
	var q operator.SearchQuery
	c := &cobra.Command{
		Use: "search [flags] [TEXT]", Short: "What a text names; or open batches by what no index finds", Args: cobra.MaximumNArgs(1),
		Long: `With a TEXT it finds batches by their ids and their callers' keys, orders by theirs, and lanes by
their names: whole, or by the beginning, open or final, up to --limit of each (default 20, at most
100). Upper and lower case differ. The JSON is operator.Lookup. Without a TEXT it reads the open
batches, the oldest first, and lists those with all the properties of the flags. It ends after
--within, and says when it did not see all. The JSON is operator.SearchResult. Payloads are never
shown.`,
	}
	read := a.addFilterFlags(c, &q.Filter)
	f := c.Flags()
	f.StringVar(&q.Trace, "trace", "", "only those added within the trace of this `ID`, 32 hexadecimal digits")
	f.IntVar(&q.Attempts, "attempts", 0, "at least so many attempts")
	f.IntVar(&q.Limit, "limit", 100, "how many at most, up to 1000")
	f.DurationVar(&q.Within, "within", 0, "how long to search (default 2s)")
	return a.databasesCommand(c, func(ctx context.Context, all *databases, args []string) error {
		if len(args) > 0 {
			return a.lookup(ctx, all, c, args[0], q.Limit)
		}
		where, err := read(ctx, all)
		if err != nil {
			return err
		}
		where.timeLimit = q.Within
		answers, err := askAll(ctx, where, func(ctx context.Context, db *database) (operator.SearchResult, error) { return db.desk.Search(ctx, q) })
		if err != nil {
			return err
		}
		found := desks.JoinSearched(desks.Values(answers), q.Limit)
		return a.print(found, func(p *page) {
			p.printBatches(found.Batches)
			if found.Incomplete {
				p.line("there may be more: the search ended after %d open batches", found.Examined)
			}
		})
	})
}

// lookup prints the batches, orders and lanes that a text names.
func (a *app) lookup(ctx context.Context, all *databases, c *cobra.Command, text string, limit int) error {
	for _, flag := range []string{"service", "tag", "state", "error", "cause", "older-than", "newer-than", "trace", "attempts", "within"} {
		if c.Flags().Changed(flag) {
			return fmt.Errorf("%w: --%s is for a search without a TEXT", errUsage, flag)
		}
	}
	if text == "" {
		return fmt.Errorf("%w: the TEXT is empty", errUsage)
	}
	if !c.Flags().Changed("limit") {
		limit = 20
	}
	answers, err := askAll(ctx, all, func(ctx context.Context, db *database) (operator.Lookup, error) {
		return db.desk.Lookup(ctx, text, limit)
	})
	if err != nil {
		return err
	}
	found := desks.JoinLookups(desks.Values(answers))
	return a.print(found, func(p *page) { p.printHits(found) })
}

// printHits prints the batches, orders and lanes that a text names.
func (p *page) printHits(found operator.Lookup) {
	if len(found.Hits) == 0 {
		p.line("nothing has this id, key or name, or one that begins so; upper and lower case differ")
		return
	}
	t := p.table("FOUND BY", "NAME", "BATCH", "LANE", "STATE", "ADDED")
	for _, h := range found.Hits {
		switch {
		case h.Batch != nil:
			t.row(alarmStyle(h.Batch.Decision != "" || h.Batch.Quarantined), h.By, p.id(h.Name), h.Batch.ID, laneText(h.Batch.Service), h.Batch.State, timeText(h.Batch.CreatedAt))
		case h.Order != nil:
			t.row(alarmStyle(h.Order.State == order.Quarantined), h.By, p.id(h.Name), h.Order.Batch, laneText(h.Order.Party), h.Order.State, timeText(h.Order.CreatedAt))
		default:
			t.row(stylePlain, h.By, laneText(*h.Lane), "", laneText(*h.Lane), "", "")
		}
	}
	t.finish()
	if found.More {
		p.line("there are more: give more of it")
	}
}
