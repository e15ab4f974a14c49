package evmtest

import (
	"encoding/binary"
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// transaction is a decoded transaction with its bytes.
type transaction struct {
	*evmtx.Tx
	raw           []byte // without blobs
	sizeWithBlobs int    // length of the bytes with their blobs; 0 without blobs
	hash          evmtx.Hash
	from          evmtx.Address
}

// blobPrice is the price of a unit of blob gas in wei. maxBlobs is the most blobs that a block may
// have.
const (
	blobPrice = 1
	maxBlobs  = 9
)

// blobGas returns the blob gas of the transaction.
func (tx *transaction) blobGas() uint64 { return evmtx.BlobSize * uint64(len(tx.BlobHashes)) }

// cost returns the balance that an account needs before the transaction can be mined.
func (tx *transaction) cost() *big.Int {
	c := new(big.Int).SetUint64(tx.Gas)
	c.Mul(c, tx.FeeCap).Add(c, tx.Value)
	if tx.Type == evmtx.Blob {
		blobs := new(big.Int).SetUint64(tx.blobGas())
		c.Add(c, blobs.Mul(blobs, tx.BlobFeeCap))
	}
	return c
}

// tipAt returns the miner's share of the price of a unit of gas. It is negative if the fee cap is
// below the base fee.
func (tx *transaction) tipAt(baseFee *big.Int) *big.Int {
	left := new(big.Int).Sub(tx.FeeCap, baseFee)
	if left.Cmp(tx.Tip) > 0 {
		left.Set(tx.Tip)
	}
	return left
}

// minedTransaction is a transaction in a block, with the data of its receipt.
type minedTransaction struct {
	*transaction
	block             *block
	indexInBlock      int
	succeeded         bool
	gasUsed           uint64
	cumulativeGas     uint64 // the gas used in the block up to and with this transaction
	effectiveGasPrice *big.Int
	createdContract   *evmtx.Address // nil if the transaction created no contract
}

type block struct {
	number          uint64
	hash            evmtx.Hash
	parent          evmtx.Hash
	time            time.Time
	baseFee         *big.Int
	gasLimit        uint64
	gasUsed         uint64
	blobGas         uint64
	txs             []*minedTransaction
	changedAccounts map[evmtx.Address]account // the accounts that the block changed, as they are after it
}

// account is the state of an address. A state is never changed, only replaced by another.
type account struct {
	nonce   uint64
	balance *big.Int
	code    []byte
}

func (a account) balanceOrZero() *big.Int {
	if a.balance == nil {
		return new(big.Int)
	}
	return a.balance
}

// delegated reports whether the account's code delegates to another account (EIP-7702).
func (a account) delegated() bool {
	return len(a.code) == 23 && a.code[0] == 0xef && a.code[1] == 0x01
}

type accountVersion struct {
	fromBlock uint64
	account
}

// chain is the blocks, and the state after each.
type chain struct {
	chainID        uint64
	blocks         []*block
	versions       map[evmtx.Address][]accountVersion
	txs            map[evmtx.Hash]*minedTransaction
	nextBaseFee    *big.Int // the base fee of the next block
	gasLimitTarget uint64   // the gas limit to which blocks grow; 0 if it stays
	hashSalt       uint64   // a counter, so that no two blocks have the same hash
}

func newChain(o *Options, salt uint64, now time.Time) *chain {
	c := &chain{
		chainID: o.ChainID, versions: map[evmtx.Address][]accountVersion{}, txs: map[evmtx.Hash]*minedTransaction{}, nextBaseFee: big.NewInt(1e9), hashSalt: salt << 32,
	}
	if o.NoBaseFee {
		c.nextBaseFee = new(big.Int)
	}
	genesis := &block{time: now, baseFee: c.nextBaseFee, gasLimit: o.GasLimit, changedAccounts: map[evmtx.Address]account{}}
	for text, funds := range o.Accounts {
		address, err := evmtx.ParseAddress(text)
		if err != nil {
			panic(err) // the Options were checked before
		}
		genesis.changedAccounts[address] = account{balance: funds}
	}
	if o.Personality != Anvil {
		c.gasLimitTarget = 60_000_000
	}
	c.assignHash(genesis)
	c.appendBlock(genesis)
	if o.Personality == Anvil { // anvil's first block has the base fee of the genesis block
		c.nextBaseFee = genesis.baseFee
	}
	return c
}

func (c *chain) head() *block { return c.blocks[len(c.blocks)-1] }

// assignHash gives a block a hash that no other block has.
func (c *chain) assignHash(b *block) {
	c.hashSalt++
	b.hash = evmtx.Keccak([]byte("block"), binary.BigEndian.AppendUint64(nil, c.chainID), binary.BigEndian.AppendUint64(nil, c.hashSalt),
		binary.BigEndian.AppendUint64(nil, uint64(b.time.UnixNano())), b.parent[:])
}

// appendBlock adds a sealed block as the new head.
func (c *chain) appendBlock(b *block) {
	c.blocks = append(c.blocks, b)
	for address, a := range b.changedAccounts {
		c.versions[address] = append(c.versions[address], accountVersion{b.number, a})
	}
	for _, m := range b.txs {
		c.txs[m.hash] = m
	}
	c.nextBaseFee = b.nextBaseFee()
}

// nextBaseFee returns the base fee of the block after this one (EIP-1559).
func (b *block) nextBaseFee() *big.Int {
	target := b.gasLimit / 2
	if b.gasUsed == target || b.baseFee.Sign() == 0 { // from 0 the base fee never rises: a chain without a base fee
		return b.baseFee
	}
	distance := new(big.Int).SetUint64(max(b.gasUsed, target) - min(b.gasUsed, target))
	delta := distance.Mul(distance, b.baseFee)
	delta.Div(delta, new(big.Int).SetUint64(target)).Div(delta, big.NewInt(8))
	if b.gasUsed < target {
		return new(big.Int).Sub(b.baseFee, delta)
	}
	if delta.Sign() == 0 {
		delta.SetInt64(1)
	}
	return new(big.Int).Add(b.baseFee, delta)
}

// accountAfter returns an account's state after a block.
func (c *chain) accountAfter(address evmtx.Address, number uint64) account {
	for _, v := range slices.Backward(c.versions[address]) {
		if v.fromBlock <= number {
			return v.account
		}
	}
	return account{}
}

func (c *chain) accountNow(address evmtx.Address) account {
	return c.accountAfter(address, c.head().number)
}

// setAccount changes an account's state at the head, without a transaction.
func (c *chain) setAccount(address evmtx.Address, a account) {
	head := c.head()
	head.changedAccounts[address] = a
	all := c.versions[address]
	if n := len(all); n > 0 && all[n-1].fromBlock == head.number {
		all = all[:n-1]
	}
	c.versions[address] = append(all, accountVersion{head.number, a})
}

// removeAbove removes the blocks above a number, and returns them.
func (c *chain) removeAbove(number uint64) []*block {
	if number >= c.head().number {
		return nil
	}
	gone := slices.Clone(c.blocks[number+1:])
	c.blocks = slices.Clip(c.blocks[:number+1])
	for _, b := range gone {
		for address := range b.changedAccounts {
			all := c.versions[address]
			c.versions[address] = slices.DeleteFunc(slices.Clone(all), func(v accountVersion) bool { return v.fromBlock > number })
		}
		for _, m := range b.txs {
			delete(c.txs, m.hash)
		}
	}
	c.nextBaseFee = c.head().nextBaseFee()
	return gone
}

// replaceBlocks makes these blocks the chain, and returns the blocks that are no longer in it.
func (c *chain) replaceBlocks(blocks []*block) []*block {
	same := 0
	for same < len(blocks) && same < len(c.blocks) && blocks[same] == c.blocks[same] {
		same++
	}
	gone := c.removeAbove(uint64(same - 1))
	for _, b := range blocks[same:] {
		c.appendBlock(b)
	}
	return gone
}

// beginBlock returns the next block, still empty.
func (c *chain) beginBlock(now time.Time) *block {
	head := c.head()
	b := &block{number: head.number + 1, parent: head.hash, time: now, baseFee: c.nextBaseFee, gasLimit: head.gasLimit, changedAccounts: map[evmtx.Address]account{}}
	if b.gasLimit < c.gasLimitTarget {
		b.gasLimit = min(c.gasLimitTarget, b.gasLimit+b.gasLimit/1024-1)
	}
	if b.time.Unix() <= head.time.Unix() { // several blocks within one second
		b.time = head.time.Add(time.Second)
	}
	return b
}

// accountIn returns the state of an address inside a block that is being made.
func (c *chain) accountIn(b *block, address evmtx.Address) account {
	if a, ok := b.changedAccounts[address]; ok {
		return a
	}
	return c.accountNow(address)
}

// fits reports whether the consensus rules allow the transaction as the next one of the block.
func (c *chain) fits(b *block, tx *transaction) bool {
	a := c.accountIn(b, tx.from)
	return (tx.ChainID == c.chainID || tx.ChainID == 0) && tx.Nonce == a.nonce && tx.tipAt(b.baseFee).Sign() >= 0 && a.balanceOrZero().Cmp(tx.cost()) >= 0 &&
		tx.Gas >= tx.IntrinsicGas() && tx.Gas >= tx.FloorGas() && b.gasUsed+tx.Gas <= b.gasLimit &&
		b.blobGas+tx.blobGas() <= maxBlobs*evmtx.BlobSize
}

// execute adds a transaction that fits to the block.
func (c *chain) execute(b *block, tx *transaction) {
	tip := tx.tipAt(b.baseFee)
	m := &minedTransaction{transaction: tx, block: b, indexInBlock: len(b.txs), effectiveGasPrice: tip.Add(tip, b.baseFee)}
	before := maps.Clone(b.changedAccounts)
	sender := c.accountIn(b, tx.from)
	left, ok := c.executeCall(b, m, tx.Gas-tx.IntrinsicGas())
	if !ok {
		b.changedAccounts = before
	}
	m.succeeded, m.gasUsed = ok, max(tx.Gas-left, tx.FloorGas())
	b.gasUsed += m.gasUsed
	m.cumulativeGas = b.gasUsed
	b.blobGas += tx.blobGas()
	// The sender has its balance after the call, less the price of the gas.
	paid := new(big.Int).Mul(m.effectiveGasPrice, new(big.Int).SetUint64(m.gasUsed))
	paid.Add(paid, new(big.Int).SetUint64(blobPrice*tx.blobGas()))
	after := c.accountIn(b, tx.from)
	b.changedAccounts[tx.from] = account{nonce: sender.nonce + 1, balance: new(big.Int).Sub(after.balanceOrZero(), paid), code: after.code}
	b.txs = append(b.txs, m)
}

// executeCall moves the value and runs the code, and returns the gas that is left.
func (c *chain) executeCall(b *block, m *minedTransaction, gas uint64) (left uint64, ok bool) {
	sender := c.accountIn(b, m.from)
	b.changedAccounts[m.from] = account{nonce: sender.nonce, balance: new(big.Int).Sub(sender.balanceOrZero(), m.Value), code: sender.code}
	to := evmtx.Address{}
	if m.To == nil {
		to = contractAddress(m.from, m.Nonce)
		m.createdContract = &to
	} else {
		to = *m.To
	}
	callee := c.accountIn(b, to)
	callee.balance = new(big.Int).Add(callee.balanceOrZero(), m.Value)
	b.changedAccounts[to] = callee
	if m.To != nil {
		if callee.delegated() {
			return gas, true // the code of the other account is not simulated
		}
		_, left, err := runCode(callee.code, gas)
		return left, err == nil
	}
	code, left, err := runCode(m.Data, gas)
	deposit := gasPerCodeByte * uint64(len(code))
	if err != nil || left < deposit {
		return left, false
	}
	callee.code, callee.nonce = slices.Clone(code), 1
	b.changedAccounts[to] = callee
	return left - deposit, true
}

// gasPerCodeByte is the gas for each byte of a new contract.
const gasPerCodeByte = 200

// contractAddress returns the address of a contract that an account creates with this nonce.
func contractAddress(from evmtx.Address, nonce uint64) evmtx.Address {
	var number []byte
	for n := nonce; n > 0; n >>= 8 {
		number = append([]byte{byte(n)}, number...)
	}
	if nonce == 0 || nonce >= 0x80 {
		number = append([]byte{0x80 + byte(len(number))}, number...)
	}
	list := append(append([]byte{0xc0 + byte(21+len(number)), 0x94}, from[:]...), number...)
	h := evmtx.Keccak(list)
	return evmtx.Address(h[12:])
}
