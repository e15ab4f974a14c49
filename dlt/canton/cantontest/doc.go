// Package cantontest is a Canton participant to test against: a real HTTP server
// with the JSON Ledger API v2, which behaves as participants do and not as one would
// like them to (docs/ledgers/canton.md). In a test of one's own:
//
//	p := cantontest.Start(t, nil)
//	ledger, err := canton.New(p.URL(), &canton.Options{UserID: "app"})
//	// ... run batches of cantontest.Payload(...) through the ledger, then p.Check(nil)
//
// It takes submissions and completes them later, deduplicates them by user, parties
// and command id for the period that each asks for, refuses what is still in flight,
// lists completions with limits and paging, streams them over WebSockets, prunes
// ([Participant.Prune]), restarts ([Participant.Restart], [Participant.Crash]), knows
// tokens, and answers with the errors of Canton, their categories and codes. It
// executes transfers in a book of balances ([Payload]), journals everything
// ([Participant.Journal], [Participant.Check]), and goes wrong on demand ([Fault]).
//
// What it does not do: Daml, contracts, synchronizers, interactive submission,
// transaction trees. "Taking effect" is moving money in the book.
//
// The participant has no goroutine of its own but its server's: whatever was due
// since the last look is done, in the order of its times, when somebody looks.
package cantontest
