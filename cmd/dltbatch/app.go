package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/legible"
	"github.com/dltbatch/dltbatch/internal/moving"
	"github.com/dltbatch/dltbatch/internal/redact"
	"github.com/dltbatch/dltbatch/internal/release"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// app is one call of the command.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	userName       func() (string, error) // returns the name of the user at the operating system
	openDatabase   func(ctx context.Context, t target) (*database, error)
	hasColour      bool // true if out is a terminal that shows colours
	width          int  // columns of the terminal; 0 if out is no terminal

	dsns, schemas []string // the values of the flags or the environment
	prefix        string
	namedTargets  []target // the databases that dsns and schemas name: one, or the shards of a set
	args          []string // the arguments of the command line
	wantsJSON     bool
	isParsed      bool // true once the command line is parsed without an error
}

func newApp() *app {
	width := 0
	if isTerminal(os.Stdout) {
		width = terminalWidth
		if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil {
			width = max(width, n)
		}
	}
	return &app{
		width: width,
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, openDatabase: open,
		hasColour: isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == "",
		userName: func() (string, error) {
			u, err := user.Current()
			if err != nil {
				return "", err
			}
			return u.Username, nil
		},
	}
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// The exit codes.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 3
	exitRefused  = 4
	exitSettings = 5
	exitLeft     = 6
	exitSchema   = 7
)

// exitCodes describes the exit codes. Scripts may rely on them.
var exitCodes = [...]string{
	exitDone:     "done",
	exitFailed:   "failed: the database was not reached, or gave an error, or an answer could not be written; or a shard failed",
	exitUsage:    "the command line or an argument is wrong; nothing was done",
	exitNotFound: "no such batch",
	exitRefused:  "nothing was done, or nothing to a shard that refused: not confirmed, moved on since it was seen, in doubt, not allowed in this state, or no pause or halt to end",
	exitSettings: "the settings that an answer needs are not on record, or instances disagree about them",
	exitLeft:     "something is left: doctor found trouble, or bulk could not act upon all batches",
	exitSchema:   "the schema is missing, not up to date (migrate status), newer than this program knows, from before the first release, or moved to another server",
}

// Errors of the command itself.
var (
	errUsage       = errors.New("wrong use")
	errUnconfirmed = errors.New("not confirmed, so nothing was done")
	errLeft        = errors.New("something is left")
)

func exitCode(err error) int {
	for _, known := range []struct {
		err  error
		code int
	}{
		{errUsage, exitUsage}, {batch.ErrInvalidInput, exitUsage},
		{batch.ErrNotFound, exitNotFound},
		{errUnconfirmed, exitRefused}, {batch.ErrMovedOn, exitRefused}, {batch.ErrInDoubt, exitRefused}, {batch.ErrNotAllowed, exitRefused},
		{operator.ErrNotRecorded, exitSettings}, {operator.ErrDisagree, exitSettings},
		{errLeft, exitLeft},
		{store.ErrNotMigrated, exitSchema}, {store.ErrNewerSchema, exitSchema}, {store.ErrUnreleasedSchema, exitSchema},
		{store.ErrSchemaMoved, exitSchema}, {moving.ErrRefused, exitRefused},
	} {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	return exitFailed
}

// requireSubcommand makes c a command that only has subcommands: without one, or with an unknown
// one, it returns a usage error.
func requireSubcommand(c *cobra.Command) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())
		}
		return fmt.Errorf("%s wants one of its commands", c.CommandPath())
	}
	return c
}

// run carries out a command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	a.args = args
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if !a.isParsed {
		a.wantsJSON = a.wantsJSON || slices.Contains(args, "--json") // the flag may follow the unknown word
		err = fmt.Errorf("%w: %w; see dltbatch --help", errUsage, err)
	}
	code := exitCode(err)
	a.printError(err, code)
	return code
}

// printError writes an error to the error output.
func (a *app) printError(err error, code int) {
	text := a.safeText(err)
	advice := ""
	switch {
	case errors.Is(err, operator.ErrDisagree):
		advice = "dltbatch settings SERVICE shows the record, dltbatch agree SERVICE ends a disagreement"
	case code == exitSettings:
		advice = "dltbatch settings SERVICE shows what is on record, dltbatch instances which lanes an instance does not take, and why; of more than 16 lanes its log does (lane_held)"
	case errors.Is(err, batch.ErrInDoubt):
		advice = "dltbatch explain ID says what it waits for; dltbatch withdraw ID asks the ledger to keep it from taking effect, where the ledger can"
	case errors.Is(err, store.ErrNotMigrated):
		advice = "are the DSN and --schema those of the application? Where they are, dltbatch migrate status shows the schema's version, and dltbatch migrate up makes the tables or brings them up to date"
	}
	if advice == "" || a.wantsJSON {
		a.printErrorText(text, code)
		return
	}
	a.printErrorLine("dltbatch: " + legible.Sentences(text))
	a.printErrorLine("  " + legible.Sentences(advice))
}

// printErrorText writes the text of an error to the error output.
func (a *app) printErrorText(text string, code int) {
	if a.wantsJSON {
		_ = encode(a.stderr, failure{Error: text, Code: code})
		return
	}
	a.printErrorLine("dltbatch: " + text)
}

// printErrorLine writes a line to the error output. It ignores the write's error, since there is
// no other output.
func (a *app) printErrorLine(line string) { _, _ = fmt.Fprintln(a.stderr, line) }

type failure struct {
	Error string `json:"error"`
	Code  int    `json:"code"` // the exit code
}

// safeText returns the text of an error without the data source name. pgx's connection errors
// quote parts of that name, so only their cause is shown.
func (a *app) safeText(err error) string {
	text := legible.Error(err)
	if c, is := errors.AsType[*pgconn.ConnectError](err); is {
		text = "the database was not reached: " + joinDistinctLines(legible.Error(c.Unwrap()))
	}
	names := slices.Clone(a.dsns)
	for _, t := range a.namedTargets {
		names = append(names, t.dsn)
	}
	for _, name := range names {
		if dsn := strings.TrimPrefix(name, "sqlite:"); dsn != "" {
			text = strings.ReplaceAll(text, dsn, "(the DSN)")
		}
	}
	if code := exitCode(err); code == exitUsage || code == exitNotFound { // such errors quote arguments
		for _, arg := range a.args {
			text = redact.HideArgument(text, arg, batch.Excerpt(arg, 4*len(arg))) // an InputError has no control characters
		}
	}
	return redact.DSN(text)
}

// joinDistinctLines joins the lines of a text and leaves out repeated lines, because pgx returns
// the same text for each address that it tried.
func joinDistinctLines(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// databaseCommand returns a command that runs do with one open database.
func (a *app) databaseCommand(c *cobra.Command, do func(ctx context.Context, db *database, args []string) error) *cobra.Command {
	return a.plainCommand(c, func(ctx context.Context, args []string) error {
		t, err := a.target()
		if err != nil {
			return err
		}
		db, err := a.openDatabase(ctx, t)
		if err != nil {
			return err
		}
		defer db.close()
		db.t = t
		return do(ctx, db, args)
	})
}

// plainCommand returns a command that opens no database by itself.
func (a *app) plainCommand(c *cobra.Command, do func(ctx context.Context, args []string) error) *cobra.Command {
	if c.Args == nil {
		c.Args = cobra.NoArgs
	}
	c.DisableFlagsInUseLine = true
	c.RunE = func(c *cobra.Command, args []string) error {
		a.isParsed = true
		if err := checkFilters(c); err != nil {
			return err
		}
		if err := checkNames(c, args); err != nil {
			return err
		}
		var err error
		if a.namedTargets, err = a.targets(); err != nil {
			return err
		}
		return do(c.Context(), args)
	}
	return c
}

const rootHelp = `dltbatch shows and mends what a store of dltbatch holds. It needs the database and no ledger.

The data source name is a URL of PostgreSQL (postgres://), the keyword form (host=...), or the
path of a SQLite file, also as sqlite:PATH. Prefer DLTBATCH_DSN to --dsn: other users of a machine
can read command lines. It is never printed. PostgreSQL's own variables, such as PGPASSWORD, work
as well.

Where lanes are divided over shards (docs/scale.md), give --dsn and --schema of all of them, in
the order of their numbers: as many of both, or one of either for all. DLTBATCH_DSN may have a
line for each. Then lists, causes, counts, doctor, searches and the console show all shards; what
names a batch or a lane goes to its shard, and --all to all. A shard that fails, or gives no
answer for a minute, is named first, and the others are shown or acted upon; the exit code is 1.
With --json, status, causes, instances, doctor and what --all changes have "shards", with "shard"
and "answer" for each.

Begin with "dltbatch causes": what stands still, why, and the command that moves it.`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "dltbatch", Short: "Shows and mends what a store of dltbatch holds", Long: rootHelp,
		SilenceErrors: true, SilenceUsage: true, Version: release.Running(),
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	// The help texts of flags are wrapped, too.
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", ".FlagUsagesWrapped 100 "))
	flags := root.PersistentFlags()
	flags.StringArrayVar(&a.dsns, "dsn", nil, "the database, as `DSN`; again for each shard; default: the variable DLTBATCH_DSN")
	flags.StringArrayVar(&a.schemas, "schema", nil, "PostgreSQL: the `SCHEMA` that holds the tables; again for each shard (default dltbatch)")
	flags.StringVar(&a.prefix, "prefix", "", "PostgreSQL: the prefix of the tables' names")
	flags.BoolVar(&a.wantsJSON, "json", false, "print JSON, errors included")
	root.AddCommand(
		a.status(), a.causes(), a.list(), a.search(), a.show(), a.explain(), a.lanes(), a.instances(), a.history(), a.settings(),
		a.pause(), a.resume(), a.policy(), a.release(), a.requeue(), a.cancel(), a.decide(), a.withdraw(), a.acquit(), a.agree(),
		a.bulk(), a.orders(), a.export(), a.migrate(), a.move(), a.prune(), a.doctor(), a.console(),
	)
	return root
}
