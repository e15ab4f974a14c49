package evm

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// recent remembers the last blocks of a node, each with the hashes of its transactions, and which
// transactions the node has shown in its pool. While blocks that follow one another, up to the
// head of a view, do not have such a transaction, it is Pending without another question about it:
// a question about a hundred transactions asks for one block, and then for the receipts of those
// that the block has.
//
// A list proves nothing. A listed transaction is asked for by its receipt. Others are not asked
// for, for a short time only: a node that leaves something out of a list delays its status by that
// time.
type recent struct {
	mu     sync.Mutex
	blocks map[evmtx.Hash]*listed
	order  []evmtx.Hash // of the blocks, as they came
	txs    int          // in all of them
	head   *listed      // of the last view; nil where its list is not known
	pool   map[evmtx.Hash]word
}

// listed is a block with the hashes of its transactions.
type listed struct {
	number       uint64
	hash, parent evmtx.Hash
	has          map[evmtx.Hash]struct{}
}

// word says that a node has shown a transaction in its pool, when a block was its head.
type word struct {
	at    time.Time
	since *listed
	shown *pooled
}

const (
	maxListed = 64     // blocks
	maxTxs    = 50_000 // in the lists of all of them
	maxWords  = 16_384
	maxLink   = 16 // blocks that one question asks for, so that those it knows follow one another
	wordShare = 10 // a word counts for this part of Options.Grace: for all of it no trace would mean nothing either
)

// list reads the list of a block. It returns nil without a list of hashes, or without a parent.
func (b block) list() *listed {
	var hashes []string
	if b.parent == (evmtx.Hash{}) || json.Unmarshal(b.txs, &hashes) != nil || hashes == nil {
		return nil
	}
	l := &listed{number: b.number, hash: b.hash, parent: b.parent, has: make(map[evmtx.Hash]struct{}, len(hashes))}
	for _, text := range hashes {
		h, ok := evmtx.ParseHash(text)
		if !ok {
			return nil
		}
		l.has[h] = struct{}{}
	}
	return l
}

// take remembers a block, as far as it has a list, and returns it.
func (r *recent) take(b block, head bool) *listed {
	r.mu.Lock()
	l := r.blocks[b.hash]
	r.mu.Unlock()
	if l == nil {
		l = b.list() // without the lock, since it takes its time
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if head {
		r.head = l
	}
	if l == nil || r.blocks[b.hash] != nil || len(l.has) > maxTxs {
		return l
	}
	if r.blocks == nil {
		r.blocks = map[evmtx.Hash]*listed{}
	}
	r.blocks[b.hash], r.order, r.txs = l, append(r.order, b.hash), r.txs+len(l.has)
	for len(r.order) > maxListed || r.txs > maxTxs {
		r.txs -= len(r.blocks[r.order[0]].has)
		delete(r.blocks, r.order[0])
		r.order = r.order[1:]
	}
	return l
}

// last returns the head of the last view, for a word that the node gives after it. It is nil where
// the list of that block is not known.
func (r *recent) last() *listed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head
}

// chain returns the blocks down from a head that follow one another, without a gap.
func (r *recent) chain(head *listed) (all []*listed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := head; l != nil && len(all) < maxListed; l = r.blocks[l.parent] {
		if len(all) > 0 && l.number+1 != all[len(all)-1].number {
			break
		}
		all = append(all, l)
	}
	return all
}

// below returns the highest block that is known at this height or below.
func (r *recent) below(height uint64) (found uint64) {
	found = unknownHeight
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.blocks {
		if l.number <= height && (found == unknownHeight || l.number > found) {
			found = l.number
		}
	}
	return found
}

// shows remembers that the node has a transaction in its pool, after a view with this head.
func (r *recent) shows(h evmtx.Hash, w word) {
	if w.since == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pool == nil || len(r.pool) >= maxWords {
		r.pool = map[evmtx.Hash]word{}
	}
	r.pool[h] = w
}

// words returns the words no older than fresh. Where a transaction has none, since is nil.
func (r *recent) words(hashes []evmtx.Hash, now time.Time, fresh time.Duration) []word {
	out := make([]word, len(hashes))
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, h := range hashes {
		if w, ok := r.pool[h]; ok && now.Sub(w.at) < fresh {
			out[i] = w
		}
	}
	return out
}

func (r *recent) forget(h evmtx.Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pool, h)
}

// found says where a transaction is that a node has shown in its pool.
type found uint8

const (
	unread found = iota // a block may have it that was not read, or is not on the view's chain any more
	inList              // a block since then has it
	absent              // no block since then has it
)

// look looks for a transaction in the blocks down from a view's head. The block of the word
// counts, too: a node may show in its pool what its last block has.
func (w word) look(chain []*listed, h evmtx.Hash) found {
	if len(chain) == 0 || chain[0].number < w.since.number {
		return unread
	}
	n := chain[0].number - w.since.number
	if n >= uint64(len(chain)) || chain[n].hash != w.since.hash {
		return unread
	}
	for _, l := range chain[:n+1] {
		if _, ok := l.has[h]; ok {
			return inList
		}
	}
	return absent
}
