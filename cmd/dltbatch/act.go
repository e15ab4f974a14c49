package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/desks"
	"github.com/dltbatch/dltbatch/internal/legible"
	"github.com/dltbatch/dltbatch/operator"
)

// consent holds the actor and the reason of an act, and whether to ask for confirmation.
type consent struct {
	app     *app
	by      batch.By
	saidYes bool
}

// addActFlags adds the flags of an act.
func (a *app) addActFlags(c *cobra.Command, asks bool) *consent {
	t := &consent{app: a}
	c.Flags().StringVar(&t.by.Reason, "reason", "", "why, for the history; required")
	c.Flags().StringVar(&t.by.Actor, "actor", "", "who acts, for the history (default the user of the operating system)")
	if asks {
		c.Flags().BoolVar(&t.saidYes, "yes", false, "do not ask for a typed confirmation")
	}
	return t
}

// actor returns the actor, by default the user of the operating system, and the required reason.
func (t *consent) actor() (batch.By, error) {
	if strings.TrimSpace(t.by.Reason) == "" {
		return t.by, fmt.Errorf("%w: give a --reason: the history keeps it", errUsage)
	}
	if t.by.Actor == "" {
		name, err := t.app.userName()
		if err != nil {
			return t.by, fmt.Errorf("%w: give an --actor: the operating system does not know who you are: %w", errUsage, err)
		}
		t.by.Actor = name
	}
	return t.by, nil
}

// confirm shows the batches or lanes of an act, asks the question, and waits until the person
// types word or ctx is done. It asks nothing if question is "".
func (t *consent) confirm(ctx context.Context, word, question string, people func(p *page)) error {
	if question == "" || t.saidYes {
		return nil
	}
	p := &page{width: t.app.width}
	people(p)
	fmt.Fprintf(t.app.stderr, "%s%s Type %s to go on: ", p.String(), legible.Line(question), word)
	type answer struct {
		line string
		err  error
	}
	typed := make(chan answer, 1)
	go func() { // ctx does not end a read from a terminal
		line, err := bufio.NewReader(t.app.stdin).ReadString('\n')
		typed <- answer{line, err}
	}()
	var received answer
	select {
	case received = <-typed:
	case <-ctx.Done():
	}
	t.app.printErrorLine("")
	if received.err != nil && !errors.Is(received.err, io.EOF) {
		return fmt.Errorf("%w: read the confirmation: %w", errUnconfirmed, received.err)
	}
	if strings.TrimSpace(received.line) != word {
		return errUnconfirmed
	}
	return nil
}

const actHelp = `
The act is upon the version that was read and shown just before; if it has changed meanwhile,
nothing is done (exit code 4). --seen asks for the version that you saw earlier.`

// batchCommand returns a command that acts upon one batch.
func (a *app) batchCommand(c *cobra.Command, args int, does func(args []string, rec batch.Record) (batchAct, error)) *cobra.Command {
	n := batchFlags{app: a}
	var seen int64
	c.Long += actHelp + "\nThe JSON is the batch.Record after it."
	c.Args = cobra.RangeArgs(args, args+1)
	n.addFlags(c)
	t := a.addActFlags(c, true)
	c.Flags().Int64Var(&seen, "seen", 0, "act only upon this `VERSION` of the batch, as show, list --json and explain have it")
	return a.databasesCommand(c, func(ctx context.Context, all *databases, given []string) error {
		by, err := t.actor()
		if err != nil {
			return err
		}
		id := given[:len(given)-args]
		db, rec, err := n.findStored(ctx, all, id)
		if err != nil {
			return err
		}
		if err := all.partError(", so that nobody knows what this names there: give the id with --service, and both as a whole"); err != nil {
			return err
		}
		if c.Flags().Changed("seen") && seen != rec.Version {
			return &batch.MovedOnError{Seen: seen, Now: rec}
		}
		act, err := does(given[len(id):], rec)
		if err != nil {
			return err
		}
		if err := db.desk.CheckAct(ctx, rec, batch.Action(c.Name()), act.ruling); err != nil { // a person is not asked to confirm an act that cannot be done
			return err
		}
		question := act.question
		if len(id) > 0 && id[0] != string(rec.ID) {
			if t.saidYes {
				return fmt.Errorf("%w: with --yes give the whole id: %s", errUsage, rec.ID)
			}
			how := "You gave the beginning of its id. "
			if id[0] == rec.DataChangeID {
				how = "You gave its caller's key. "
			}
			question = strings.TrimSpace(how + question)
		}
		if err := t.confirm(ctx, c.Name(), question, func(p *page) { p.printRecord(rec, false) }); err != nil {
			return err
		}
		after, err := act.do(ctx, db.desk, by)
		if err != nil {
			return err
		}
		return a.print(after, func(p *page) {
			now := "is " + after.State.String()
			switch {
			case after.State != rec.State:
			case rec.Quarantined && !after.Quarantined:
				now = "is no longer set aside"
			case after.Withdrawn && !rec.Withdrawn:
				now = "is withdrawn: what takes effect first decides"
			}
			p.line("%s: %s was %s, %s (version %d)", c.Name(), p.id(string(after.ID)), rec.State.String(), now, after.Version)
			if after.State == batch.Queued && after.NotBefore.After(time.Now()) {
				p.line("it may be sent again from %s, since the ledger may remember the last attempt until then; the batches behind it wait", timeText(after.NotBefore))
			}
		})
	})
}

// batchAct is an act upon one batch.
type batchAct struct {
	question string // the question to confirm; "" asks nothing
	ruling   batch.Ruling
	do       func(context.Context, *operator.Desk, batch.By) (batch.Record, error)
}

func (a *app) cancel() *cobra.Command {
	return a.batchCommand(&cobra.Command{
		Use: "cancel [flags] [ID]", Short: "End a batch that has not left",
		Long: `Makes a batch rejected that waits and has no attempt in doubt. A batch under way is not touched.`,
	}, 0, func(_ []string, rec batch.Record) (batchAct, error) {
		return batchAct{question: "The batch will never be sent.", do: func(ctx context.Context, d *operator.Desk, by batch.By) (batch.Record, error) {
			return d.Cancel(ctx, rec, by)
		}}, nil
	})
}

func (a *app) requeue() *cobra.Command {
	c := &cobra.Command{
		Use: "requeue [flags] [ID]", Short: "Send an invalid or rejected batch again",
		Long: `Puts an invalid or rejected batch back into its lane, at its old place. A halted lane stays
halted. The ledger's quiet time has to be on record (exit code 5).`,
	}
	return a.batchCommand(c, 0, func(_ []string, rec batch.Record) (batchAct, error) {
		question := "The batch will be sent again."
		if !rec.LastPost.IsZero() {
			question = "The batch will be sent again, but not while the ledger may remember the last attempt: the result says until when. The batches behind it wait."
		}
		return batchAct{question: question, do: func(ctx context.Context, d *operator.Desk, by batch.By) (batch.Record, error) {
			return d.Requeue(ctx, rec, by)
		}}, nil
	})
}

func (a *app) decide() *cobra.Command {
	c := &cobra.Command{
		Use: "decide [flags] [ID] " + strings.Join(asText(batch.Rulings()), "|"), Short: "End the doubt about a batch", ValidArgsFunction: fixedCompletions(asText(batch.Rulings())),
		Long: `Ends a doubt, once you have read the ledger. What you state about the batch:
` + statements() + `
A wrong "not_executed_send_again" executes a batch twice on a ledger that does not refuse
duplicates.`,
	}
	return a.batchCommand(c, 1, func(given []string, rec batch.Record) (batchAct, error) {
		r, err := parseRuling(given[0])
		question := "You state: " + r.Statement() + "."
		if r == batch.NotExecutedSendAgain {
			question += " If it is on the ledger, or comes there still, it may be executed twice."
		}
		return batchAct{question: question, ruling: r, do: func(ctx context.Context, d *operator.Desk, by batch.By) (batch.Record, error) {
			return d.Decide(ctx, rec, r, by)
		}}, err
	})
}

func parseRuling(word string) (batch.Ruling, error) {
	r := batch.Ruling(word)
	if err := r.Validate(); err != nil {
		return "", fmt.Errorf("%w: %w", errUsage, err)
	}
	return r, nil
}

// statements returns a line for each ruling.
func statements() string {
	var lines strings.Builder
	for _, r := range batch.Rulings() {
		fmt.Fprintf(&lines, "- %s: %s\n", r, r.Statement())
	}
	return lines.String()
}

func (a *app) withdraw() *cobra.Command {
	c := &cobra.Command{
		Use: "withdraw [flags] [ID]", Short: "End a batch for good that is under way",
		Long: `Asks the ledger to keep a batch from taking effect that was sent to it: on an EVM chain an intent,
by a transfer of nothing that has its nonce. What takes effect first decides, and nothing else
does: the batch ends committed or invalid, or rejected as "cancelled". A running instance does it,
once the batch's lane is not paused. What the ledger can do has to be on record (exit code 5). A
withdrawal cannot be taken back.`,
	}
	return a.batchCommand(c, 0, func(_ []string, rec batch.Record) (batchAct, error) {
		question := "What takes effect first decides: the batch, or what is sent to exclude it."
		return batchAct{question: question, do: func(ctx context.Context, d *operator.Desk, by batch.By) (batch.Record, error) {
			return d.Withdraw(ctx, rec, by)
		}}, nil
	})
}

func (a *app) acquit() *cobra.Command {
	return a.batchCommand(&cobra.Command{
		Use: "acquit [flags] [ID]", Short: "End the quarantine of a batch",
		Long: `Ends the quarantine of a batch, which stays final as it is. From then on retention may remove it.`,
	}, 0, func(_ []string, rec batch.Record) (batchAct, error) {
		return batchAct{do: func(ctx context.Context, d *operator.Desk, by batch.By) (batch.Record, error) {
			return d.Acquit(ctx, rec, by)
		}}, nil
	})
}

// steering is a command that acts upon a lane, or upon everything.
type steering struct {
	question func(batch.Scope) string // returns the question to confirm; "" asks nothing
	takesAll bool                     // true if the command takes --all
	moreArgs int                      // number of arguments after the service
	// whyNothing returns why an act upon a control would do nothing; "" if it would do something.
	// A nil function stands for "" always.
	whyNothing func(batch.Control) string
	// laneQuestion returns the question to confirm before an act upon this control of one lane;
	// nil asks nothing.
	laneQuestion func(ctx context.Context, db *database, seen batch.Control) (string, error)
	do           func(ctx context.Context, d *operator.Desk, seen batch.Control, more []string, by batch.By) (batch.Control, error)
}

func (a *app) steerCommand(c *cobra.Command, s steering) *cobra.Command {
	var wholeStore bool
	var seen int64
	if c.Name() != "pause" {
		c.Long += actHelp
	}
	c.Long += "\nThe JSON is the batch.Control after it."
	c.Args = cobra.RangeArgs(s.moreArgs, s.moreArgs+1)
	t := a.addActFlags(c, true)
	if s.takesAll {
		c.Flags().BoolVar(&wholeStore, "all", false, "everything, in place of one SERVICE")
	}
	if c.Name() != "pause" {
		c.Flags().Int64Var(&seen, "seen", 0, "act only upon this `VERSION` of the control, as lanes has it")
	}
	return a.databasesCommand(c, func(ctx context.Context, all *databases, given []string) error {
		by, err := t.actor()
		if err != nil {
			return err
		}
		scope, question, where := batch.Everything(), "", all
		switch {
		case wholeStore == (len(given) > s.moreArgs):
			return fmt.Errorf("%w: name one SERVICE%s", errUsage, map[bool]string{true: ", or --all"}[s.takesAll])
		case !wholeStore:
			db, service, asks, err := t.findLane(ctx, all, given[0])
			if err != nil {
				return err
			}
			scope, question, given, where = batch.Only(service), asks, given[1:], &databases{app: a, list: []*database{db}}
		}
		controls, err := askAll(ctx, where, func(ctx context.Context, db *database) (batch.Control, error) { return db.desk.Control(ctx, scope) })
		if err != nil {
			return err
		}
		controls = desks.WithoutErrors(controls)
		if c.Flags().Changed("seen") {
			if where.areSeveral() {
				return fmt.Errorf("%w: --seen is the version of one control, and --all is about that of each shard", errUsage)
			}
			if control := controls[0].Value; seen != control.Version {
				return &batch.MovedOnError{Seen: seen, Control: control}
			}
		}
		if s.whyNothing != nil {
			// The name may have a typing error. The command must then not report success, because
			// the lane that was meant is still held.
			why := ""
			controls = slices.DeleteFunc(controls, func(x desks.Answer[batch.Control]) bool {
				no := s.whyNothing(x.Value)
				why = cmp.Or(why, no)
				return no != ""
			})
			if len(controls) == 0 {
				return fmt.Errorf("%w: %s, so nothing was done; dltbatch lanes shows the held lanes", batch.ErrNotAllowed, why)
			}
		}
		if s.question != nil {
			question = strings.TrimSpace(question + " " + s.question(scope))
		}
		if s.laneQuestion != nil {
			asks, err := s.laneQuestion(ctx, where.list[0], controls[0].Value)
			if err != nil {
				return err
			}
			question = strings.TrimSpace(question + " " + asks)
		}
		show := func(p *page) {
			if where.areSeveral() {
				p.printShardControls(controls)
			} else {
				p.printControls(controls[0].Value)
			}
		}
		if err := t.confirm(ctx, c.Name(), question, show); err != nil {
			return err
		}
		done := desks.Ask(ctx, controls, func(ctx context.Context, x desks.Answer[batch.Control]) (batch.Control, error) {
			return withTimeLimit(ctx, where, func(ctx context.Context) (batch.Control, error) {
				return s.do(ctx, where.list[x.Shard].desk, x.Value, given, by)
			})
		})
		for i := range done {
			if done[i].Shard = controls[i].Shard; done[i].Err != nil && !where.areSeveral() {
				return done[i].Err
			}
		}
		controls = desks.WithoutErrors(done)
		if where.areSeveral() { // if one shard fails, the act is still done in the others
			tellFailed(where, done)
			noteMissing(where, done)
			if len(controls) == 0 {
				return nil // the error names the shards
			}
			return a.print(shardAnswers[batch.Control]{controls}, show)
		}
		return a.print(controls[0].Value, func(p *page) {
			p.line("%s: done; %s now:", c.Name(), scopeText(scope))
			show(p)
		})
	})
}

// findLane returns the lane of an act, and a question about its name: a lane that the store does
// not know may be a typing error, and the beginning of a name stands for the only lane that begins
// with it. With --yes the command asks nothing, and text must be the whole name.
func (t *consent) findLane(ctx context.Context, all *databases, text string) (db *database, findLane batch.ServiceID, question string, err error) {
	if t.saidYes {
		db, err = all.ofLane(batch.ServiceID(text))
		return db, batch.ServiceID(text), "", err
	}
	db, findLane, known, err := all.findLane(ctx, text)
	if err == nil {
		err = all.partError(", so that nobody knows what this names there: with --yes it is taken as the whole name")
	}
	switch {
	case err != nil:
		return db, findLane, "", err
	case !known:
		return db, findLane, "Nobody knows the lane " + quoteName(text) + ": it has no batches, no orders and no control. Is it a typing error?", nil
	case string(findLane) != text:
		return db, findLane, "No lane is named " + quoteName(text) + "; " + quoteName(string(findLane)) + " begins so, and is the only one.", nil
	}
	return db, findLane, "", nil
}

// scopeText returns a name of a scope for people.
func scopeText(s batch.Scope) string {
	if s.All {
		return "everything as a whole"
	}
	return "the lane " + quoteName(batch.Excerpt(string(s.Service), 64))
}

// askOfAll returns a function that asks the question only before an act upon everything.
func askOfAll(question string) func(batch.Scope) string {
	return func(s batch.Scope) string {
		if s.All {
			return question
		}
		return ""
	}
}

func (a *app) pause() *cobra.Command {
	return a.steerCommand(&cobra.Command{
		Use: "pause [flags] [SERVICE]", Short: "Let nothing leave a lane, or any lane",
		Long: `Lets nothing leave a lane, or with --all any lane, in the whole cluster. Batches under way are
still followed. Only --all asks for a confirmation, and a lane that nobody knows: its name may be
a typing error.`,
	}, steering{
		takesAll: true, question: askOfAll("Nothing will leave any lane."),
		do: func(ctx context.Context, d *operator.Desk, seen batch.Control, _ []string, by batch.By) (batch.Control, error) {
			return d.Pause(ctx, seen.Scope, by)
		},
	})
}

func (a *app) resume() *cobra.Command {
	return a.steerCommand(&cobra.Command{
		Use: "resume [flags] [SERVICE]", Short: "End a pause",
		Long: `Ends the pause of a lane, or with --all the pause of everything; lanes that were paused one by one
stay paused. Only --all asks for a confirmation. Where there is no such pause, the exit code is 4.`,
	}, steering{
		whyNothing: func(c batch.Control) string {
			if c.PausedAt.IsZero() {
				return scopeText(c.Scope) + " is not paused"
			}
			return ""
		},
		takesAll: true, question: askOfAll("All lanes that are not paused themselves go on."),
		do: func(ctx context.Context, d *operator.Desk, seen batch.Control, _ []string, by batch.By) (batch.Control, error) {
			return d.Resume(ctx, seen, by)
		},
	})
}

func (a *app) release() *cobra.Command {
	return a.steerCommand(&cobra.Command{
		Use: "release [flags] SERVICE", Short: "End the halt of a lane",
		Long: `Ends the halt of a lane: the batch that halted it is left behind, and the batches after it go on.
If that batch was requeued since, the lane begins with it. Where the lane is not halted, the exit
code is 4.`,
	}, steering{
		whyNothing: func(c batch.Control) string {
			if c.HaltedAt.IsZero() {
				return scopeText(c.Scope) + " is not halted"
			}
			return ""
		},
		laneQuestion: releaseQuestion,
		do: func(ctx context.Context, d *operator.Desk, seen batch.Control, _ []string, by batch.By) (batch.Control, error) {
			return d.Release(ctx, seen, by)
		},
	})
}

// releaseQuestion returns the question before the release of a lane. It says with which batch the
// lane continues.
func releaseQuestion(ctx context.Context, db *database, seen batch.Control) (string, error) {
	switch halter, err := db.desk.Get(ctx, batch.Key{Service: seen.Scope.Service, ID: seen.HaltedBy}); {
	case errors.Is(err, batch.ErrNotFound): // retention removed the batch
	case err != nil:
		return "", err
	case !halter.Final():
		return "The lane goes on, beginning with the batch that halted it, which was requeued.", nil
	}
	return "The lane goes on behind the batch that halted it.", nil
}

var policies = []batch.Policy{batch.PolicyContinue, batch.PolicyHalt, batch.PolicyQuarantine, batch.PolicyDefault}

func (a *app) policy() *cobra.Command {
	return a.steerCommand(&cobra.Command{
		Use: "policy [flags] SERVICE continue|halt|quarantine|default", Short: "How a lane goes on behind a bad batch", ValidArgsFunction: fixedCompletions(textsOf(policies)),
		Long: `Sets how a lane goes on when one of its batches ends invalid or rejected: it goes on (continue),
it stands until it is released (halt), or it goes on and the batch is set aside (quarantine).
"default" removes the lane's own policy.`,
	}, steering{
		moreArgs: 1,
		do: func(ctx context.Context, d *operator.Desk, seen batch.Control, more []string, by batch.By) (batch.Control, error) {
			p, err := parse[batch.Policy](more)
			if err != nil {
				return seen, err
			}
			return d.SetPolicy(ctx, seen, p[0], by)
		},
	})
}

func (a *app) settings() *cobra.Command {
	c := &cobra.Command{
		Use: "settings [flags] SERVICE", Short: "What instances rely on for a service",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("settings wants one SERVICE: dltbatch lanes lists those with batches")
			}
			return nil
		},
		Long: `Shows what Runners have recorded about the ledger that serves a service: explanations and requeues
need it. The JSON is operator.Settings; "kept" is the record, as JSON in a text.`,
	}
	return a.databasesCommand(c, func(ctx context.Context, all *databases, args []string) error {
		db, service, known, err := all.findLane(ctx, args[0])
		if err != nil {
			return err
		}
		r, err := db.desk.Settings(ctx, service)
		if err != nil {
			return err
		}
		return a.print(r, func(p *page) {
			p.printRelied(r)
			if !known {
				p.line("nobody knows a lane of this name, which may be a typing error: dltbatch lanes lists those with batches")
			}
		})
	})
}

func (p *page) printRelied(r operator.Settings) {
	if r.Ledger == "" {
		p.line("no instance serves lane %s, and none has served it: nothing is on record", laneText(r.Service))
		return
	}
	record := r.Kept
	if record == "" {
		record = "none: no instance has recorded its settings"
	}
	t := p.table("SERVICE", laneText(r.Service))
	t.row(stylePlain, "ledger", r.Ledger)
	t.row(stylePlain, "record", record)
	if r.Disagree {
		t.row(styleRed, "disagreement", `"other" are the settings before; correct the instance that is wrong, then dltbatch agree`)
	}
	t.finish()
}

func (a *app) agree() *cobra.Command {
	c := &cobra.Command{
		Use: "agree [flags] SERVICE", Short: "End a disagreement of instances about settings", Args: cobra.ExactArgs(1),
		Long: `Says that no process relies on the other settings any more, which "dltbatch settings" shows. A
wrong word may send a requeued batch too early, or make explanations wrong. The act is upon the
record that was read and shown just before. The JSON is operator.Settings after it.`,
	}
	t := a.addActFlags(c, true)
	return a.databasesCommand(c, func(ctx context.Context, all *databases, args []string) error {
		by, err := t.actor()
		if err != nil {
			return err
		}
		db, service, question, err := t.findLane(ctx, all, args[0])
		if err != nil {
			return err
		}
		r, err := db.desk.Settings(ctx, service)
		if err != nil {
			return err
		}
		if !r.Disagree {
			return a.print(r, func(p *page) { p.line("nobody disagrees") })
		}
		if err := t.confirm(ctx, "agree", question+" No process may have the other settings any more.", func(p *page) { p.printRelied(r) }); err != nil {
			return err
		}
		if err := db.desk.Agree(ctx, r, by); err != nil {
			return err
		}
		if r, err = db.desk.Settings(ctx, r.Service); err != nil {
			return err
		}
		return a.print(r, func(p *page) { p.printRelied(r) })
	})
}
