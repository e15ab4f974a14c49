package flaky

// Kind is a way in which a call fails.
type Kind int

// These are the ways.
const (
	None Kind = iota
	// Before is an error of a call that was not run.
	Before
	// After is an error of a call that was run.
	After
	// ConnectionCut is a connection that was lost before the call was run.
	ConnectionCut
	// Shutdown is a server that runs the call, and then ends the connection with an error
	// (SQLSTATE 57P01), as may happen to a COMMIT that waits for a standby.
	Shutdown
	// RolledBack is an error of a call that was not run, after which the transaction has ended, as
	// when SQLite ends a transaction by itself because the disk is full.
	RolledBack
	// CommitRolledBack is a COMMIT in a failed transaction, which PostgreSQL answers with
	// ROLLBACK.
	CommitRolledBack
)

// String returns the kind's name.
func (k Kind) String() string {
	return [...]string{"none", "before", "after", "cut", "shutdown", "undone", "doomed"}[k]
}

// onlyCommits reports whether calls other than COMMIT cannot fail in this way.
func (k Kind) onlyCommits() bool { return k == Shutdown || k == CommitRolledBack }

// shutdown is the error of a server that ends the connection.
type shutdown struct{}

func (shutdown) Error() string    { return "flaky: terminating connection due to administrator command" }
func (shutdown) SQLState() string { return "57P01" }
func (shutdown) Is(e error) bool  { return e == ErrAfter }
