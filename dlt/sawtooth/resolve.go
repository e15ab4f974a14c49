package sawtooth

import (
	"context"
	"errors"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

const opResolve = "resolve"

// maxLookups is how many transactions of a batch are looked up in one call. More would use a
// node's threads for a proof that time brings anyway.
const maxLookups = 16

// Resolve implements [dlt.Ledger]. The engine calls it only for a batch in doubt that must not be
// sent again, because it was refused or its budget is used up. Any other batch in doubt is sent
// again, which is harmless.
//
// Committed means that the batch is in a node's chain. NotCommitted means that no node knows the
// batch, and it can no longer arrive or be remembered: Options.ResendQuiet after the last POST
// ended (only then nodes forget parked batches and requests in their queues), plus Options.Vanish
// where commits may vanish. Each node must then have an earlier commit of the lane in its chain,
// where the lane has one: a node that reads the chain anew knows no batch. NotCommitted comes at
// once if a transaction of the batch is in the chain through another batch, since transactions are
// unique in a chain (docs/ledgers/sawtooth.md#the-same-bytes-again). INVALID is NotCommitted after
// Options.Settle and the same time. Before these times have passed the result is InFlight, and for
// PENDING it always is. With an error the result is CannotTell; a node that cannot be asked may
// know more.
//
// The facts are in docs/ledgers/sawtooth.md#statuses,
// docs/ledgers/sawtooth.md#the-same-bytes-again and docs/ledgers/sawtooth.md#receipts-and-lookups.
func (c *Client) Resolve(ctx context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	if !isID(string(d.ID)) {
		return dlt.CannotTell, &dlt.Error{Op: opResolve, Kind: dlt.ErrMisconfigured, Message: "the id is none of Sawtooth's"}
	}
	word, err := c.askAllForEvidence(ctx, d.ID)
	switch {
	case word == batch.ReportedCommitted:
		return dlt.Committed, nil
	case err != nil: // a node that was not reached may know more
		return dlt.CannotTell, err
	case word == batch.ReportedPending:
		return dlt.InFlight, nil
	case word == batch.ReportedInvalid:
		if d.Ended > max(c.traits.Settle, c.traits.ResendQuiet)+c.traits.Vanish {
			return dlt.NotCommitted, nil
		}
		return dlt.InFlight, nil
	}
	return c.resolveUnknown(ctx, d)
}

func evidenceOfLookup(isCommitted bool, err error) (dlt.Evidence, error) {
	if isCommitted {
		return dlt.Committed, nil
	}
	return dlt.CannotTell, err
}

// resolveUnknown returns the evidence for a batch that no node knows.
func (c *Client) resolveUnknown(ctx context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	if d.Ended > c.traits.ResendQuiet+c.traits.Vanish {
		return c.notCommittedUnlessBehind(ctx, d)
	}
	if c.traits.Vanish > 0 {
		return dlt.InFlight, nil // the other batch may vanish, and then this one may be committed
	}
	decoded, err := decode(d.Payload)
	if err != nil {
		return dlt.InFlight, nil //nolint:nilerr // without its transactions there is nothing to look up; only time can prove more
	}
	txs := decoded.batchTransactions()
	for _, tx := range txs[:min(len(txs), maxLookups)] {
		if !isID(tx.ID) {
			continue
		}
		is, other, err := c.hasTransactionInAnother(ctx, d.ID, tx.ID)
		switch {
		case is || err != nil:
			return evidenceOfLookup(is, err)
		case other:
			return dlt.NotCommitted, nil
		}
	}
	return dlt.InFlight, nil
}

// notCommittedUnlessBehind returns NotCommitted if each node has an earlier commit of the lane in
// its chain. A node that reads the chain again, after the loss of its disk, does not know any
// batch yet, and its answer proves nothing.
func (c *Client) notCommittedUnlessBehind(ctx context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	if len(d.Witnesses) == 0 {
		return dlt.NotCommitted, nil // there is no earlier commit to look for
	}
	for _, e := range c.endpoints {
		has, err := c.hasAnyBatch(ctx, e, d.Witnesses[:min(len(d.Witnesses), maxLookups)])
		switch {
		case err != nil:
			return dlt.CannotTell, err
		case !has:
			return dlt.CannotTell, &dlt.Error{Op: opResolve, Kind: dlt.ErrDoubt, Endpoint: e.name, Message: "the node does not have the lane's earlier commits in its chain: it is behind, or of another chain"}
		}
	}
	return dlt.NotCommitted, nil
}

// hasAnyBatch reports whether one of these batches is in a node's chain.
func (c *Client) hasAnyBatch(ctx context.Context, e endpoint, ids []batch.ID) (bool, error) {
	for _, id := range ids {
		if !isID(string(id)) {
			continue
		}
		if f, err := c.lookup(ctx, opResolve, e.batches, string(id), codeNoBatch); f.isInChain || err != nil {
			return f.isInChain, err
		}
	}
	return false, nil
}

// hasTransactionInAnother reports whether a transaction is in the chain (is), and whether it is
// there through another batch, since the node does not have this one (other). It asks the same
// node first for the transaction and then for the batch: in the reverse order, a commit in between
// would look like another batch's.
func (c *Client) hasTransactionInAnother(ctx context.Context, id batch.ID, tx string) (is, other bool, err error) {
	for _, e := range c.endpoints {
		f, err := c.lookup(ctx, opResolve, e.transactions, tx, codeNoTransaction)
		if err != nil {
			return false, false, err
		}
		if !f.isInChain {
			continue
		}
		f, err = c.lookup(ctx, opResolve, e.batches, string(id), codeNoBatch)
		if err != nil || f.isInChain {
			return f.isInChain, false, err
		}
		other = true
	}
	return false, other, nil
}

// askAllForEvidence asks all nodes at once, each first for its chain and then for its status of
// the batch. It returns the strongest answer. The error is nil only if all nodes have answered.
func (c *Client) askAllForEvidence(ctx context.Context, id batch.ID) (batch.Reported, error) {
	words, errs := make([]batch.Reported, len(c.endpoints)), make([]error, len(c.endpoints))
	var wg sync.WaitGroup
	for i := range c.endpoints {
		wg.Go(func() { words[i], errs[i] = c.askForEvidence(ctx, i, id) })
	}
	wg.Wait()
	best := words[0]
	for _, w := range words {
		if strength(w) > strength(best) {
			best = w
		}
	}
	return best, errors.Join(errs...)
}

// askForEvidence returns one node's answer; 0 if there is an error.
func (c *Client) askForEvidence(ctx context.Context, endpoint int, id batch.ID) (batch.Reported, error) {
	f, err := c.lookup(ctx, opResolve, c.endpoints[endpoint].batches, string(id), codeNoBatch)
	switch {
	case err != nil:
		return 0, err
	case f.isInChain:
		return batch.ReportedCommitted, nil
	}
	statuses, err := c.ask(ctx, endpoint, []batch.ID{id})
	switch {
	case len(statuses) == 1:
		return statuses[0].Reported, nil
	case err == nil:
		err = &dlt.Error{Op: opResolve, Kind: dlt.ErrDoubt, Message: "no answer about the batch"}
	}
	return 0, err
}
