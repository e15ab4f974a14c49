package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
)

func (a *app) bulk() *cobra.Command {
	c := requireSubcommand(&cobra.Command{Use: "bulk", Short: "One act upon many batches"})
	c.AddCommand(a.preview(), a.runBulk(), a.resumeBulk(), a.cancelBulk(), a.showBulk(), a.listBulks())
	return c
}

var bulkActions = []string{"cancel", "requeue", "decide", "acquit"}

func (a *app) preview() *cobra.Command {
	var b operator.Bulk
	var word, file string
	c := &cobra.Command{
		Use: "preview [flags] cancel|requeue|decide|acquit", Short: "What an act upon many batches would do",
		Args: cobra.ExactArgs(1), ValidArgs: bulkActions,
		Long: `Selects batches by a filter and changes nothing: how many, for which causes, and the first
hundred. --out writes the selection to a file, for "dltbatch bulk run". It holds the batches as
they are now, and a token that stands for them. The JSON is operator.Selection.`,
	}
	read := a.addFilterFlags(c, &b.Filter)
	f := c.Flags()
	f.BoolVar(&b.Filter.Quarantined, "quarantined", false, "only what a policy set aside")
	f.StringVar(&word, "ruling", "", "with decide: "+strings.Join(asText(batch.Rulings()), ", "))
	f.StringVar(&file, "out", "", "write the selection to this `FILE`, which must not exist")
	completeFlag(c, "ruling", asText(batch.Rulings()))
	return a.databaseCommand(c, func(ctx context.Context, db *database, args []string) (err error) {
		b.Action = batch.Action(args[0])
		if _, err := read(ctx, &databases{app: a, list: []*database{db}}); err != nil {
			return err
		}
		if word != "" {
			if b.Ruling, err = parseRuling(word); err != nil {
				return err
			}
		}
		sel, err := db.desk.Preview(ctx, b)
		if err != nil {
			return err
		}
		if file != "" {
			if err := writeFile(file, sel); err != nil {
				return err
			}
		}
		return a.print(sel, func(p *page) {
			p.printSelection(sel)
			if file != "" && len(sel.Batches) > 0 {
				p.line("")
				p.line("  $ dltbatch bulk run %s --token %s --reason WHY", quoteName(file), sel.Token)
			}
		})
	})
}

func asText[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

// writeFile writes a new file. After an error it removes the file.
func writeFile(path string, sel operator.Selection) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("%w: --out: %w", errUsage, err)
	}
	err = encode(f, sel)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(path) // the error of the write is returned
	}
	return err
}

func (p *page) printSelection(sel operator.Selection) {
	what := string(sel.Bulk.Action)
	if sel.Bulk.Ruling != "" {
		what += " " + string(sel.Bulk.Ruling)
	}
	p.line("%s: %s batches, as of %s, token %s", what, countText(len(sel.Batches), sel.More), timeText(sel.At), sel.Token)
	if len(sel.Batches) == 0 {
		return
	}
	p.line("")
	t := p.table("BATCHES", "CAUSE", "STATE", "ERROR")
	for _, c := range sel.Causes {
		state := ""
		if c.State != 0 {
			state = c.State.String()
		}
		t.row(stylePlain, c.Batches, c.Cause, state, c.Kind)
	}
	t.finish()
	p.line("")
	t = p.table("SERVICE", "ID", "STATE", "ADDED", "ERROR")
	for _, r := range sel.First {
		t.row(stylePlain, laneText(r.Service), r.ID, r.State, timeText(r.CreatedAt), errorText(r.Error))
	}
	t.finish()
	if n := len(sel.Batches) - len(sel.First); n > 0 {
		p.line("and %d more", n)
	}
}

func (a *app) runBulk() *cobra.Command {
	var token string
	c := &cobra.Command{
		Use: "run [flags] FILE", Short: "Carry a previewed selection out", Args: cobra.ExactArgs(1),
		Long: `Keeps a selection in the database, and acts upon each batch of it as it was at the preview, one by
one. It skips what has changed since. FILE is what "dltbatch bulk preview" wrote; - is the input,
with --yes. --token has to be the one of the preview that you saw. The end is a report: exit code
6 says that something was not done, with the reasons. Where a run ends early, nothing goes on by
itself: "dltbatch bulk resume TOKEN" goes on from any machine, as the same run again does, and
"dltbatch bulk cancel TOKEN" gives the rest up.`,
	}
	c.Flags().StringVar(&token, "token", "", "the `TOKEN` of the preview that you saw; required")
	t := a.addActFlags(c, true)
	return a.databaseCommand(c, func(ctx context.Context, db *database, args []string) error {
		by, err := t.actor()
		if err != nil {
			return err
		}
		sel, err := a.readSelectionFile(args[0], t.saidYes)
		if err != nil {
			return err
		}
		if token != sel.Token {
			return fmt.Errorf("%w: --token is not the token of this selection", errUsage)
		}
		if err := t.confirm(ctx, strconv.Itoa(len(sel.Batches)), "All of them are acted upon.", func(p *page) { p.printSelection(sel) }); err != nil {
			return err
		}
		if _, err := operator.NewBulks(db.desk).Begin(ctx, sel, by); err != nil {
			return err
		}
		return a.carryOut(ctx, db, sel.Token, by)
	})
}

func (a *app) readSelectionFile(file string, yes bool) (sel operator.Selection, err error) {
	in := a.stdin
	switch {
	case file != "-":
		f, err := os.Open(file)
		if err != nil {
			return sel, fmt.Errorf("%w: %w", errUsage, err)
		}
		defer func() { _ = f.Close() }() // the file was only read
		in = f
	case !yes:
		return sel, fmt.Errorf("%w: a selection from the input wants --yes, since nobody can be asked there", errUsage)
	}
	text, err := io.ReadAll(in)
	if err != nil { // for example of a directory
		return sel, fmt.Errorf("%w: read the selection: %w", errUsage, err)
	}
	if err := json.Unmarshal(text, &sel); err != nil {
		return sel, fmt.Errorf("%w: this is no selection that bulk preview wrote: %w", errUsage, err)
	}
	return sel, nil
}
