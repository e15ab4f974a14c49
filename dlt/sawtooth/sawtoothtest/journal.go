package sawtoothtest

import (
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Kind is the kind of a journal entry.
type Kind string

// The kinds of entries. PostStart, PostEnd and StatusAnswered belong to a request, the others to
// the validator.
const (
	PostStart      Kind = "post start"      // a POST /batches came in
	PostEnd        Kind = "post end"        // its answer is about to be written, or its connection ended
	StatusAnswered Kind = "status answered" // a status answer is about to be written whole; not noted if it repeats the last one about this id
	Accepted       Kind = "accepted"        // the validator has the batch; UNKNOWN until Published
	Ignored        Kind = "ignored"         // answered like any other, without effect (docs/ledgers/sawtooth.md#the-same-bytes-again)
	Parked         Kind = "parked"          // waits for a dependency (docs/ledgers/sawtooth.md#dependencies)
	Published      Kind = "published"       // the batch is in the pool, and reported PENDING
	Executed       Kind = "executed"        // the batch was executed; Word is COMMITTED or INVALID
	BatchInvalid   Kind = "invalid"         // the batch is reported INVALID from now on
	BlockCommitted Kind = "block"           // a block of Batches, which are in order of execution
	Dropped        Kind = "dropped"         // silently gone (docs/ledgers/sawtooth.md#pending-for-ever); Word is the reason
	Halted         Kind = "halted"          // no processor serves Batches[0]: no blocks, and no POST is accepted; Word is the reason
	Killed         Kind = "killed"          // the validator was killed, but the REST API goes on
	Restarted      Kind = "restart"         // the validator and the REST API were killed
	Started        Kind = "started"         // the validator was started again
	Forked         Kind = "fork"            // Batches are not committed any more; Block is the number of the last block that stays
)

// Entry is one line of the journal.
type Entry struct {
	Time    time.Time
	Kind    Kind
	Batches []batch.ID // all batches of the request or block
	Request int        // pairs PostStart with PostEnd; 0 elsewhere
	Try     int        // PostStart: n-th POST of Batches[0]. Accepted, Executed: n-th time
	Status  int        // PostEnd: the HTTP status; 0 without an answer
	Word    string     // StatusAnswered: the status. Executed, Dropped, Ignored: see Kind
	Block   int        // BlockCommitted: its number, from 1
}

// journal is only appended to. The node's lock guards it.
type journal struct {
	entries  []Entry
	requests int
	lastWord map[batch.ID]string // the last status in an answer about each id
}

func (j *journal) add(e Entry) {
	j.entries = append(j.entries, e)
}

// startPost notes a POST when it arrives, so that the entry stands where the POST began. named
// adds the ids once the body was read.
func (j *journal) startPost(now time.Time) (request, at int) {
	j.requests++
	j.add(Entry{Time: now, Kind: PostStart, Request: j.requests})
	return j.requests, len(j.entries) - 1
}

func (j *journal) addIDs(at int, ids []batch.ID, try int) {
	j.entries[at].Batches, j.entries[at].Try = ids, try
}

func (j *journal) noteAnswer(now time.Time, id batch.ID, word string) {
	if j.lastWord[id] != word {
		j.lastWord[id] = word
		j.add(Entry{Time: now, Kind: StatusAnswered, Batches: []batch.ID{id}, Word: word})
	}
}

// Journal returns everything that happened so far, in order. Its slices are shared: do not
// change them.
func (n *Node) Journal() []Entry {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.advanceToNow()
	return slices.Clone(n.validator.journal.entries)
}
