package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/internal/moving"
)

// moveAnswer is what "move" prints.
type moveAnswer struct {
	moving.Standing
	Steps []stepDone `json:"steps,omitzero"` // that this call has done
}

// stepDone is a step that this call of the command has done.
type stepDone struct {
	Step moving.Step   `json:"step"`
	Took time.Duration `json:"took"`
}

const moveHelp = `The old server is that of --dsn, the new one that of --to, better given in DLTBATCH_TO_DSN. The
schema has one name on both, by --schema and --prefix. docs/scale.md#moving-a-schema says what a
move does, and what it costs. The JSON is an object with "move", "next" (the next step; "done"
after the last), "back" (it can still be taken back), "stood" (for how long the lanes stood, at
the end) and "steps", each with "step" and "took".`

// toVariable is the environment variable that names the database to which a schema moves.
const toVariable = "DLTBATCH_TO_DSN"

func (a *app) move() *cobra.Command {
	c := requireSubcommand(&cobra.Command{Use: "move", Short: "Move a schema to another server"})
	var to string
	with := func(c *cobra.Command, alone bool, do func(ctx context.Context, m *moving.Move) error) *cobra.Command {
		c.Flags().StringVar(&to, "to", "", "the new database, as `DSN` of PostgreSQL; default: the variable "+toVariable)
		return a.databaseCommand(c, func(ctx context.Context, db *database, _ []string) error {
			if to == "" {
				to = a.getenv(toVariable)
			}
			if to == "" && !alone {
				return fmt.Errorf("%w: give the new database: --to, or %s", errUsage, toVariable)
			}
			m, done, err := a.openMove(ctx, db, to)
			if err != nil {
				return err
			}
			defer done()
			return do(ctx, m)
		})
	}
	run := &cobra.Command{
		Use: "run [flags]", Short: "Move the schema, or go on with it",
		Long: `Moves the tables of the store to another server. Everything is paused until the new one serves.
Whoever still uses the old one gets an error, and nothing of such a call is stored anywhere. It
may be interrupted at any step, and called again: it goes on where it stands. Give the processes
the new data source name at any time; before the move is done, it gives them errors, too.

` + moveHelp,
	}
	var yes bool
	run.Flags().BoolVar(&yes, "yes", false, "do not ask for a typed confirmation")
	status := &cobra.Command{
		Use: "status [flags]", Short: "Where a move stands",
		Long: "Says where a move stands. Without the new database it cannot name the next step.\n\n" + moveHelp,
	}
	back := &cobra.Command{
		Use: "back [flags]", Short: "Take a move back",
		Long: `Takes a move back, as long as the old server was not given up. That serves as before, then.
Without the new database, tables stay there that serve nobody.

` + moveHelp,
	}
	c.AddCommand(
		with(run, false, func(ctx context.Context, m *moving.Move) error { return a.runMove(ctx, m, yes) }),
		with(status, true, func(ctx context.Context, m *moving.Move) error {
			s, err := m.Stand(ctx)
			if err != nil {
				return err
			}
			return a.print(moveAnswer{Standing: s}, func(p *page) { p.printStanding(s) })
		}),
		with(back, true, func(ctx context.Context, m *moving.Move) error {
			if err := m.Back(ctx); err != nil {
				return err
			}
			s, err := m.Stand(ctx)
			if err != nil {
				return err
			}
			return a.print(moveAnswer{Standing: s}, func(p *page) { p.line("the move was taken back: the old server serves") })
		}),
	)
	return c
}

// openMove returns the move between two databases; to may be "".
func (a *app) openMove(ctx context.Context, from *database, to string) (m *moving.Move, done func(), err error) {
	done = func() {}
	other := &database{}
	if to != "" {
		t := from.t
		t.dsn = to
		if other, err = a.openDatabase(ctx, t); err != nil {
			return nil, done, err
		}
		done = other.close
	}
	if from.postgres == nil || to != "" && other.postgres == nil {
		done()
		return nil, func() {}, fmt.Errorf("%w: a schema of PostgreSQL can be moved, and no SQLite file: copy that, while nobody uses it", errUsage)
	}
	said := ""
	m, err = moving.New(from.postgres, other.postgres, *from.t.options(), func(text string) {
		if text != said {
			said = text
			a.progress("  " + text)
		}
	})
	return m, done, err
}

// runMove does the remaining steps, and prints each one before it does it.
func (a *app) runMove(ctx context.Context, m *moving.Move, yes bool) error {
	s, err := m.Stand(ctx)
	if err != nil {
		return err
	}
	t := &consent{app: a, saidYes: yes || s.Next == moving.StepDone}
	question := "All lanes of the schema stand while it moves, and the old server never serves it again."
	if err := t.confirm(ctx, "move", question, func(p *page) { p.printStanding(s) }); err != nil {
		return err
	}
	answer := moveAnswer{Standing: s}
	for answer.Next != moving.StepDone {
		step := answer.Next
		a.progress(fmt.Sprintf("%s: %s", step, step.Does()))
		began := time.Now()
		if answer.Standing, err = m.Next(ctx); err != nil {
			return err
		}
		took := time.Since(began)
		a.progress(fmt.Sprintf("  done in %s", took.Round(time.Millisecond)))
		answer.Steps = append(answer.Steps, stepDone{step, took})
	}
	return a.print(answer, func(p *page) { p.printStanding(answer.Standing) })
}

// progress writes a line for people to the error output.
func (a *app) progress(line string) {
	if !a.wantsJSON {
		a.printErrorLine(line)
	}
}

// printStanding prints how far a move has come.
func (p *page) printStanding(s moving.Standing) {
	switch {
	case s.Move == "":
		p.line("no move has begun")
		return
	case s.Next == moving.StepDone:
		p.line("move %s is done: the new server serves", s.Move)
		if s.StandingTime > 0 {
			p.line("the lanes stood for %s", s.StandingTime.Round(time.Millisecond))
		}
		p.line("give the processes that have not got it yet the data source name of the new server")
		p.line("the old server keeps the tables in the schema NAME_moved: drop it there, once you are sure")
		return
	case s.Next != "":
		p.line("move %s: the next step is %q: %s", s.Move, s.Next, s.Next.Does())
	default:
		p.line("move %s is under way", s.Move)
	}
	if s.Back {
		p.line("it can be taken back: dltbatch move back")
	} else {
		p.line("it cannot be taken back")
	}
}
