package evmtest

import "maps"

// Personality is the software that a node pretends to be.
type Personality string

// The personalities. The answers of Geth and Anvil were compared with geth 1.17.8's and anvil
// 1.7.1's (testdata/nodes).
const (
	// Geth has the rules and the texts of geth in --dev mode. Its pool remembers sent
	// transactions, through a kill, and has them again ten seconds after a start.
	Geth Personality = "geth"
	// Anvil has the rules and the texts of anvil, which checks less than geth.
	Anvil Personality = "anvil"
	// Provider is a geth on a public chain behind a provider's load balancer: two backends, the
	// second Options.Lag blocks behind, answer in turns, words are put before the text of each
	// error, each error has the code -32603, an array is answered in the reverse order, and
	// nothing about the pool is answered.
	Provider Personality = "provider"

	// Besu, Nethermind, Reth, Erigon and Sequencer (of a layer 2) refuse in the words of that
	// software, which were read and not seen. All else is Geth's.
	Besu       Personality = "besu"
	Nethermind Personality = "nethermind"
	Reth       Personality = "reth"
	Erigon     Personality = "erigon"
	Sequencer  Personality = "sequencer"
)

// Refusal is a reason why a node does not take a transaction.
type Refusal string

// The reasons.
const (
	AlreadyKnown        Refusal = "already known"         // the same bytes are in the pool
	NonceTooLow         Refusal = "nonce too low"         // the nonce was used
	ReplacementTooCheap Refusal = "replacement too cheap" // the pool has the nonce, and the new fees are not high enough to replace it
	NonceGap            Refusal = "nonce gap"             // an earlier nonce is missing, and the node keeps no transaction behind a gap
	BelowBaseFee        Refusal = "below base fee"        // the fee cap is below the base fee
	TipTooLow           Refusal = "tip too low"           // the tip is below the node's minimum
	TipAboveCap         Refusal = "tip above cap"         // the tip is more than the fee cap
	NoFunds             Refusal = "no funds"              // gas * fee cap + value is more than the balance
	IntrinsicGas        Refusal = "intrinsic gas"         // the gas does not pay for the transaction itself
	FloorGas            Refusal = "floor gas"             // the gas does not pay for its data (EIP-7623)
	GasAboveCap         Refusal = "gas above cap"         // the gas is more than 2^24 (EIP-7825)
	GasAboveBlock       Refusal = "gas above block"       // the gas is more than the gas limit of a block
	FeeAboveCap         Refusal = "fee above cap"         // the fees are more than one ether
	WrongChain          Refusal = "wrong chain"           // signed for another chain
	Unprotected         Refusal = "unprotected"           // signed for no chain (before EIP-155)
	Oversized           Refusal = "oversized"             // more than 128 KiB
	NotRLP              Refusal = "not rlp"               // the bytes are no RLP
	TrailingBytes       Refusal = "trailing bytes"        // bytes follow the transaction
	NoBytes             Refusal = "no bytes"              // nothing was sent
	UnknownType         Refusal = "unknown type"          // the transaction's type is not known
	BadSignature        Refusal = "bad signature"         // the signature is not valid
	PoolFull            Refusal = "pool full"             // the pool has no room
	AccountLimit        Refusal = "account limit"         // the account has delegated code, and one transaction in the pool
	BlobGap             Refusal = "blob gap"              // an earlier nonce of a transaction with blobs is missing
	NoBlobs             Refusal = "no blobs"              // a transaction of type 3 came without them
	WrongBlobs          Refusal = "wrong blobs"           // the commitments of the blobs do not have the transaction's hashes
	Reserved            Refusal = "reserved"              // the pool has transactions of the account of the other kind: with blobs, or without
)

// RPCError is the error of a JSON-RPC answer.
type RPCError struct {
	Code int
	Text string
}

// Refusals returns the error with which a node of this personality answers each refusal. Geth and
// the personalities that behave as Geth put details behind some of the texts. A personality that
// has no error for a refusal does not check for that reason: it accepts such a transaction.
func Refusals(p Personality) map[Refusal]RPCError {
	words := maps.Clone(gethWords)
	if p == Anvil {
		words = maps.Clone(anvilWords)
	}
	maps.Copy(words, otherWords[p])
	return words
}

var gethWords = wordsWithCode(-32000, map[Refusal]string{
	AlreadyKnown:        "already known",
	NonceTooLow:         "nonce too low",
	ReplacementTooCheap: "replacement transaction underpriced",
	TipTooLow:           "transaction gas price below minimum",
	TipAboveCap:         "max priority fee per gas higher than max fee per gas",
	NoFunds:             "insufficient funds for gas * price + value",
	IntrinsicGas:        "intrinsic gas too low",
	FloorGas:            "insufficient gas for floor data gas cost",
	GasAboveCap:         "transaction gas limit too high",
	GasAboveBlock:       "exceeds block gas limit",
	FeeAboveCap:         "tx fee exceeds the configured cap",
	WrongChain:          "invalid sender: invalid chain id for signer",
	Unprotected:         "only replay-protected (EIP-155) transactions allowed over RPC",
	Oversized:           "oversized data",
	NotRLP:              "rlp: value size exceeds available input length",
	TrailingBytes:       "rlp: input contains more than one value",
	NoBytes:             "typed transaction too short",
	UnknownType:         "transaction type not supported",
	BadSignature:        "invalid sender: invalid transaction v, r, s values",
	PoolFull:            "txpool is full",
	AccountLimit:        "in-flight transaction limit reached for delegated accounts",
	BlobGap:             "nonce too high",
	NoBlobs:             "missing sidecar in blob transaction",
	WrongBlobs:          "blob 0: computed hash mismatches transaction one",
	Reserved:            "address already reserved",
})

var anvilWords = map[Refusal]RPCError{
	AlreadyKnown:        {-32003, "transaction already imported"},
	NonceTooLow:         {-32003, "nonce too low"},
	ReplacementTooCheap: {-32003, "replacement transaction underpriced"},
	BelowBaseFee:        {-32003, "max fee per gas less than block base fee"},
	TipAboveCap:         {-32003, "max priority fee per gas higher than max fee per gas"},
	NoFunds:             {-32003, "Insufficient funds for gas * price + value"},
	IntrinsicGas:        {-32000, "intrinsic gas too low"},
	GasAboveBlock:       {-32000, "intrinsic gas too high -- tx.gas_limit > env.block.gas_limit"},
	WrongChain:          {-32003, "invalid chain id for signer"},
	NotRLP:              {-32602, "Failed to decode transaction"},
	NoBytes:             {-32602, "Empty transaction data"},
	UnknownType:         {-32602, "Failed to decode transaction"},
	BadSignature:        {-32602, "Failed to recover the signer"},
	NoBlobs:             {-32003, "eip4844 tx variant without sidecar being used for verification."},
	WrongBlobs:          {-32003, "wrong versioned hash"},
}

// otherWords are the texts of other node software, read from its source: those that differ from
// Geth's.
var otherWords = map[Personality]map[Refusal]RPCError{
	Besu: {
		AlreadyKnown:        {-32000, "Known transaction"},
		NonceTooLow:         {-32001, "Nonce too low"},
		ReplacementTooCheap: {-32000, "Replacement transaction underpriced"},
		NonceGap:            {-32006, "Transaction nonce is too distant from current sender nonce"},
		BelowBaseFee:        {-32009, "Gas price below current base fee"},
		TipTooLow:           {-32009, "Gas price below configured minimum gas price"},
		NoFunds:             {-32004, "Upfront cost exceeds account balance"},
		IntrinsicGas:        {-32003, "Intrinsic gas exceeds gas limit"},
		GasAboveBlock:       {-32005, "Transaction gas limit exceeds block gas limit"},
		FeeAboveCap:         {-32000, "Transaction fee cap exceeded"},
		WrongChain:          {-32000, "Wrong chainId"},
	},
	Nethermind: wordsWithCode(-32010, map[Refusal]string{
		AlreadyKnown:        "already known",
		NonceTooLow:         "OldNonce, Current nonce: 1, nonce of rejected tx: 0",
		ReplacementTooCheap: "ReplacementNotAllowed",
		NonceGap:            "NonceGap, Future nonce. Expected nonce: 0",
		TipTooLow:           "FeeTooLow",
		NoFunds:             "InsufficientFunds, Balance is zero, cannot pay gas: insufficient funds for gas * price + value",
		GasAboveBlock:       "GasLimitExceeded, gas limit reached",
	}),
	Reth: wordsWithCode(-32003, map[Refusal]string{
		AlreadyKnown:        "already known",
		NonceTooLow:         "nonce too low: next nonce 1, tx nonce 0",
		ReplacementTooCheap: "replacement transaction underpriced",
		TipTooLow:           "transaction underpriced",
		NoFunds:             "insufficient funds for gas * price + value: have 0 want 1",
		PoolFull:            "txpool is full",
	}),
	Erigon: wordsWithCode(-32000, map[Refusal]string{
		AlreadyKnown:        "existing tx with same hash",
		NonceTooLow:         "nonce too low",
		ReplacementTooCheap: "replacement transaction underpriced",
		TipTooLow:           "fee too low",
		PoolFull:            "pending sub-pool is full",
	}),
	Sequencer: wordsWithCode(-32000, map[Refusal]string{
		NonceGap:     "nonce too high",
		BelowBaseFee: "max fee per gas less than block base fee",
	}),
}

func wordsWithCode(code int, texts map[Refusal]string) map[Refusal]RPCError {
	words := make(map[Refusal]RPCError, len(texts))
	for r, text := range texts {
		words[r] = RPCError{code, text}
	}
	return words
}

// rules are the behaviour of a personality, with its answers.
type rules struct {
	words          map[Refusal]RPCError
	clientVersion  string
	isLax          bool // true for anvil: few checks, no limits, and methods that steer the node
	addsDetails    bool // true for geth: error texts are followed by details
	behindBalancer bool // true for a provider: a load balancer in front of two backends
}

func rulesOf(p Personality) rules {
	r := rules{words: Refusals(p), clientVersion: "Geth/v1.17.8-stable/linux-amd64/go1.26.8"}
	switch p {
	case Geth:
		r.addsDetails = true
	case Provider:
		r.addsDetails, r.behindBalancer = true, true
	case Anvil:
		r.isLax, r.clientVersion = true, "anvil/v1.7.1"
	default:
		r.clientVersion = string(p)
	}
	return r
}

func isPersonality(p Personality) bool {
	_, other := otherWords[p]
	return other || p == Geth || p == Anvil || p == Provider
}
