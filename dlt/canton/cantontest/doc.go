// Package cantontest is a Canton participant for tests: a real HTTP server with the JSON
// Ledger API v2, which behaves as real participants do, bad habits included
// (docs/ledgers/canton.md). Use it in a test like this:
//
//	p := cantontest.Start(t, nil)
//	ledger, err := canton.New(p.URL(), &canton.Options{UserID: "app"})
//	// ... run batches of cantontest.Payload(...) through the ledger, then p.Check(nil)
//
// It accepts submissions and completes them later, deduplicates them by user, parties and
// command id for the period that each asks for, and refuses a command that is in flight. It
// lists completions with limits and paging, streams them over WebSockets, prunes
// ([Participant.Prune]), restarts ([Participant.Restart], [Participant.Crash]), knows tokens,
// and answers with the errors of Canton, their categories and codes. It executes transfers in
// a book of balances ([Payload]), journals everything ([Participant.Journal],
// [Participant.Check]), and goes wrong on demand ([Fault]).
//
// It has no Daml, contracts, synchronizers, interactive submission or transaction trees.
// "Taking effect" means moving money in the book.
//
// The participant has no goroutine except its server's: at each call it does everything that
// was due since the last call, in the order of its times.
package cantontest
