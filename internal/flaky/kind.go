package flaky

// Kind is a way in which a call fails.
type Kind int

// The ways.
const (
	None Kind = iota
	// Before is an error, and the call was not carried out.
	Before
	// After is an error, and the call was carried out.
	After
	// Cut is a connection that is gone before the call was carried out.
	Cut
	// Shutdown is a server that ends the connection once it has carried the call out, and says so
	// (SQLSTATE 57P01): as a COMMIT may end that waits for a standby.
	Shutdown
	// Undone is an error of a call that was not carried out, after which the transaction is gone:
	// as SQLite ends one by itself where the disk is full.
	Undone
	// Doomed is a COMMIT in a transaction that had failed, which PostgreSQL answers with ROLLBACK.
	Doomed
)

// String returns the kind's name.
func (k Kind) String() string {
	return [...]string{"none", "before", "after", "cut", "shutdown", "undone", "doomed"}[k]
}

// onlyCommits reports whether the kind is about a COMMIT.
func (k Kind) onlyCommits() bool { return k == Shutdown || k == Doomed }

// shutdown is the error of a server that ends a connection.
type shutdown struct{}

func (shutdown) Error() string    { return "flaky: terminating connection due to administrator command" }
func (shutdown) SQLState() string { return "57P01" }
func (shutdown) Is(e error) bool  { return e == ErrAfter }
