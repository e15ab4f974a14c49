package evm

import (
	"cmp"
	"context"
	"errors"
	"math/big"
	"strconv"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
	"github.com/dltbatch/dltbatch/internal/isnil"
)

var _ dlt.Ledger = (*SigningClient)(nil)

// DefaultSignTimeout is the default of [SignerOptions].SignTimeout.
const DefaultSignTimeout = 5 * time.Second

// SignerOptions are the options of [NewSigner]. The zero value of each field is its default.
type SignerOptions struct {
	// Options are the options of [New], though Name defaults to "evm:", the chain's id and
	// ":intents", because a database of signed transactions is no database of intents. With
	// queuer.Serial an intent leaves once the one before is deep, with queuer.Pipelined(n) at most
	// n of an account are under way, and at most MaxInFlightPerService
	// (docs/evm.md#several-intents-of-an-account). Vanish is 0: a commit that a reorganization
	// deeper than Finality takes back is not reported.
	Options
	// Fees chooses fees. Defaults to [DefaultFees].
	Fees Fees
	// MaxFeePerGas is the most that a unit of gas may cost in any transaction, in wei: 1 or more,
	// of at most 128 bits. An intent may set a lower one for itself. Defaults to 500 gwei.
	MaxFeePerGas *big.Int
	// SignTimeout bounds Fees and Signer.Sign together, in each attempt. It should be well below
	// dltbatch.Options.RequestTimeout, which bounds the preceding questions to the node as well.
	// Defaults to 5 s.
	SignTimeout time.Duration
}

func (o *SignerOptions) withDefaults() (SignerOptions, error) {
	var c SignerOptions
	if o != nil {
		c = *o
	}
	if c.MaxFeePerGas == nil {
		c.MaxFeePerGas = new(big.Int).Mul(big.NewInt(500), big.NewInt(1e9))
	}
	c.MaxFeePerGas = new(big.Int).Set(c.MaxFeePerGas)
	switch {
	case c.MaxFeePerGas.Sign() <= 0 || c.MaxFeePerGas.BitLen() > feeBits:
		return c, &batch.InputError{Field: "SignerOptions.MaxFeePerGas", Value: numberExcerpt(c.MaxFeePerGas), Want: "1 wei or more, of at most 128 bits"}
	case c.SignTimeout < 0:
		return c, &batch.InputError{Field: "SignerOptions.SignTimeout", Value: c.SignTimeout.String(), Want: "0 (default) or more"}
	}
	if c.SignTimeout == 0 {
		c.SignTimeout = DefaultSignTimeout
	}
	if c.Fees == nil {
		c.Fees = DefaultFees
	}
	return c, nil
}

// SigningClient executes intents: it chooses the nonce, asks for fees and signatures, and replaces
// a transaction that waits too long by one of the same nonce with higher fees. It keeps no keys.
// Each transaction is stored before it is sent. It never retries, follows no redirect, and starts
// no goroutine that outlives a call, except for a Signer or Fees that does not return in time. All
// methods may be called concurrently.
type SigningClient struct {
	dlt.Unimplemented // SubmitList, Resolve

	client      *Client
	signer      Signer
	options     SignerOptions
	traits      dlt.Traits
	signerCalls signerCalls
}

// NewSigner returns a client for intents on the chain with the id chainID, through the node at
// url. NewSigner opens no connection. nil options mean the defaults. The error is a
// [*batch.InputError].
func NewSigner(url string, chainID uint64, s Signer, o *SignerOptions) (*SigningClient, error) {
	if isnil.Is(s) {
		return nil, &batch.InputError{Field: "signer", Value: "nil", Want: "a Signer, such as a KeySigner"}
	}
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if opts.Name == "" {
		opts.Name = "evm:" + strconv.FormatUint(chainID, 10) + ":intents"
	}
	c, err := New(url, chainID, &opts.Options)
	if err != nil {
		return nil, err
	}
	t := c.traits
	// The statuses say when a nonce was used by another transaction, so Resolve is not needed.
	t.Resolves, t.Stale = false, 0
	// For a final batch nothing records which of its transactions was executed.
	t.Vanish = 0
	t.PreparesInOrder, t.Withdraws = true, true
	return &SigningClient{client: c, signer: s, options: opts, traits: t}, nil
}

// Traits implements [dlt.Ledger]. It returns the same traits for every service.
func (c *SigningClient) Traits(batch.ServiceID) dlt.Traits { return c.traits }

// CloseIdleConnections closes the connections that no request uses. The client can be used
// afterwards.
func (c *SigningClient) CloseIdleConnections() { c.client.CloseIdleConnections() }

// Events implements [dlt.Ledger] as [Client.Events] does.
func (c *SigningClient) Events(ctx context.Context, services []batch.ServiceID, yield func(dlt.Event) error) error {
	return c.client.Events(ctx, services, yield)
}

// Check implements [dlt.Ledger]. It refuses a batch
//   - whose payload is not an [Intent], or has fields that an intent does not have,
//   - whose limit of fees is above SignerOptions.MaxFeePerGas,
//   - whose gas is less than the transaction itself costs,
//   - whose service is not an account in lower case, or is an account of which a [KeySigner]
//     or a [DigestSigner] has no key.
//
// Any other Signer is not asked here: it reports such an account when the intent is to be signed.
// The error is a [*batch.InputError].
func (c *SigningClient) Check(b batch.Batch) error {
	in, sender, err := c.readIntent(b.Key(), b.Payload)
	if err == nil {
		err = withKey(cmp.Or(c.checkAccount(sender.String()), c.checkLimit(in)), b.Key())
	}
	return err
}

// checkAccount refuses an account of which a signer of this package has no key.
func (c *SigningClient) checkAccount(account string) error {
	var has []string
	switch s := c.signer.(type) { // a type that embeds one of these may sign for more accounts
	case *KeySigner:
		if s.keys[account] != nil {
			return nil
		}
		has = s.Accounts()
	case *DigestSigner:
		if s.Account() == account {
			return nil
		}
		has = []string{s.Account()}
	default:
		return nil
	}
	return &batch.InputError{Field: "service", Value: account, Want: "an account whose key the signer has: " + listAccounts(has)}
}

// checkLimit refuses an intent whose own limit is above the client's.
func (c *SigningClient) checkLimit(in intent) error {
	if in.maxFee.Cmp(c.options.MaxFeePerGas) <= 0 {
		return nil
	}
	return &batch.InputError{Field: "maxFeePerGas", Value: numberExcerpt(in.maxFee), Want: "at most " + numberExcerpt(c.options.MaxFeePerGas) + ", the client's limit"}
}

func (c *SigningClient) readIntent(key batch.Key, payload []byte) (intent, evmtx.Address, error) {
	in, sender, err := c.parse(key, payload)
	return in, sender, withKey(err, key)
}

func (c *SigningClient) parse(key batch.Key, payload []byte) (intent, evmtx.Address, error) {
	sender, err := evmtx.ParseAddress(string(key.Service))
	if err == nil && key.Service != serviceOf(sender) {
		err = &batch.InputError{Value: batch.Excerpt(string(key.Service), 80), Want: sender.String() + ", the account in lower case"}
	}
	if err != nil {
		return intent{}, sender, inField("service", err)
	}
	in, err := parseIntent(payload)
	if err != nil {
		return in, sender, err
	}
	if in.maxFee == nil {
		in.maxFee = c.options.MaxFeePerGas
	}
	tx := in.tx(c.client.chain, 0, in.gas, Fee{Tip: new(big.Int), FeeCap: in.maxFee})
	if n := len(in.data); n > maxTxBytes-1024 {
		return in, sender, &batch.InputError{Field: "data", Value: strconv.Itoa(n) + " bytes", Want: strconv.Itoa(maxTxBytes-1024) + " at most"}
	}
	if in.gas != 0 {
		err = c.client.checkExecutable(tx)
	}
	return in, sender, err
}

// leastGas returns the least gas with which the chain accepts the transaction.
func (c *SigningClient) leastGas(tx *evmtx.Tx) uint64 {
	if c.client.options.NoFloorGas {
		return tx.IntrinsicGas()
	}
	return max(tx.IntrinsicGas(), tx.FloorGas())
}

// Submit implements [dlt.Submitter]. It posts the last transaction that is stored for the batch,
// and only if no earlier nonce of the account is missing: otherwise its error is [dlt.ErrNotYet].
// The error is also ErrNotYet for stored bytes that this client cannot read. A missing nonce that
// no open batch of the lane has is closed first, by a transfer of nothing from the account to
// itself. The transaction that closes the nonce of a withdrawn batch is never refused for good.
// nil means only that a node has a transaction of the batch in its pool or in a block. The error
// is a [*dlt.Error].
func (c *SigningClient) Submit(ctx context.Context, a batch.Attempt) error {
	in, sender, err := c.readIntent(a.Key, a.Payload)
	if err != nil {
		return &dlt.Error{Op: opSubmit, Kind: dlt.ErrRejected, Message: c.client.shownText(err.Error())}
	}
	s, err := decodeSlot(a.Prepared)
	if err != nil {
		return c.client.unreadableError(opSubmit, a.Key, err)
	}
	tx, err := s.tx(s.lastEntry(), in, sender, c.client.chain)
	if err != nil {
		return c.client.unreadableError(opSubmit, a.Key, err)
	}
	b := a // b keeps the batch's own id and payload; a becomes an attempt of the signed transaction
	key := a.Key
	a.Key.ID, a.Payload = batch.ID(s.lastEntry().hash.String()), tx.Encode()
	return c.client.onPreferred(ctx, key, func(e *endpoint) error {
		one := submission{Client: c.client, endpoint: e, attempt: a, tx: tx, sender: sender, batchHashes: s.hashes(), getsNewNonce: true, closesNonce: s.isClosing()}
		err := one.submit(ctx)
		if errors.Is(err, errNonceGap) {
			return c.gapError(ctx, e, b, in, sender, err)
		}
		if s.isClosing() {
			return notClosedError(err, s.nonce)
		}
		return err
	})
}

var errNothingPrepared = errors.New("nothing was prepared, and so nothing was sent")
