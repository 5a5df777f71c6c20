package state

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ticketing/shard"

	"pgregory.net/rapid"
)

// failer is what a runner needs of a test, a fuzz target or a rapid check.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// runner interprets a program, a string of bytes, as entries for a machine and
// holds the machine against the model.
type runner struct {
	failer
	program []byte
	machine *Machine
	model   *model
	trace   []string
}

var (
	testKeys   = []string{"a", "b", "bb", strings.Repeat("c", 24), strings.Repeat("d", 128), "\x00", "é", "e\r"}
	testJumps  = []uint64{1, 1, 1, 1, 1, 2, 3, 9, 200, maxJump, maxJump + 1}
	testLeases = []uint8{1, 30, 250}
	testNames  = []string{"n1", "n2", "n3", strings.Repeat("n", 255)}
)

// run runs a program to its end.
func run(f failer, program []byte) {
	f.Helper()
	r := &runner{failer: f, program: program, machine: New(), model: newModel()}
	for len(r.program) > 0 {
		r.step()
		r.check()
	}
}

// next takes the next byte of the program, below n.
func (r *runner) next(n int) int {
	if len(r.program) == 0 {
		return 0
	}
	b := int(r.program[0]) % n
	r.program = r.program[1:]
	return b
}

func (r *runner) step() {
	r.Helper()
	switch op := r.next(16); {
	case op < 11:
		r.batch()
	case op < 12:
		moved := r.model.clone()
		moved.move(r.model.term + 1)
		r.apply(r.model.term+1, nil, moved)
	case op < 14:
		r.member()
	case op < 15:
		r.wrongOrder()
	default:
		r.reload()
	}
}

// batch applies an entry of up to five records; most of them fit.
func (r *runner) batch() {
	r.Helper()
	term := r.model.term + uint64(r.next(8)/7)
	moved := r.model.clone()
	moved.move(term)
	var records []shard.Record
	after := moved // with those records that fit
	for range r.next(6) {
		record := r.record(after)
		records = append(records, record)
		if then := after.batch(records[len(records)-1:]); then != nil {
			after = then
		}
	}
	var turns [3][]byte
	for i := range records {
		turn := &turns[i*len(turns)/len(records)]
		*turn = shard.AppendRecord(*turn, &records[i])
		r.logf("    %c token %d lease %d key %.4q", records[i].Kind, records[i].Token, records[i].Lease, records[i].Key)
	}
	r.apply(term, EncodeBatch(nil, Header{Proposer: 7, Boot: 8, Seq: 9}, turns[:]...), moved.batch(records))
}

func (r *runner) record(now *model) shard.Record {
	key := testKeys[r.next(len(testKeys))]
	holder, isHeld := now.keys[key]
	record := shard.Record{Kind: shard.RecordGrant, Token: now.counter + testJumps[r.next(len(testJumps))], Key: []byte(key)}
	missing := now.missing(20)
	switch what := r.next(32); {
	case what == 0 && now.counter > 0: // very likely a token that was issued
		record.Token = 1 + uint64(r.next(255))%now.counter
	case what < 12 && len(missing) > 0:
		record.Token = missing[r.next(len(missing))]
	}
	if isHeld && r.next(24) != 0 || r.next(64) == 0 {
		record.Kind = [...]byte{shard.RecordRelease, shard.RecordExpire}[r.next(2)]
		if r.next(24) != 0 && isHeld {
			record.Token = holder.token
		}
		return record
	}
	record.Lease = testLeases[r.next(len(testLeases))]
	return record
}

// apply applies an entry that makes the model want; if want is nil it must not
// fit.
func (r *runner) apply(term uint64, data []byte, want *model) {
	r.Helper()
	err := r.machine.Apply(r.model.index+1, term, data)
	r.logf("entry %d of term %d: %v", r.model.index+1, term, err)
	if (want != nil) != (err == nil) || err != nil && !errors.Is(err, ErrMisfit) {
		r.Fatalf("%v, want it to fit: %v", err, want != nil)
	}
	for i := range data {
		data[i] = 0xdb // must not have been kept
	}
	if want == nil {
		want = r.model
		want.move(term)
	}
	r.model = want
}

func (r *runner) member() {
	r.Helper()
	h := Header{Proposer: 1, Boot: 2, Seq: 3}
	want := r.model.clone()
	want.move(r.model.term)
	id := uint64(1 + r.next(18))
	var data []byte
	var fits bool
	if r.next(4) == 0 {
		r.logf("remove member %d", id)
		data, fits = EncodeRemoval(nil, h, id), want.dropMember(id)
	} else {
		member := Member{ID: id, Name: fmt.Sprintf("m%d", id), Peer: "127.0.0.1:1", Client: "[::1]:7400", Instance: testNames[r.next(len(testNames))]}
		if r.next(8) == 0 {
			member.Name = testNames[r.next(len(testNames))]
		}
		r.logf("set member %.200v", member)
		data, fits = EncodeMember(nil, h, member), want.setMember(member)
	}
	if !fits {
		want = nil
	}
	r.apply(r.model.term, data, want)
}

// wrongOrder applies entries that are not the next one.
func (r *runner) wrongOrder() {
	r.Helper()
	index, term := r.model.index, r.model.term
	r.refuses(index, term)
	r.refuses(index+2, term)
	if term > 0 {
		r.refuses(index+1, term-1)
	}
}

func (r *runner) refuses(index, term uint64) {
	r.Helper()
	if err := r.machine.Apply(index, term, nil); !errors.Is(err, ErrOrder) {
		r.Fatalf("entry %d of term %d: %v", index, term, err)
	}
}

// reload goes on with a machine made from a snapshot.
func (r *runner) reload() {
	r.Helper()
	data := r.machine.Snapshot()
	r.logf("snapshot of %d bytes", len(data))
	m, err := Load(data)
	if err != nil {
		r.Fatalf("%v", err)
	}
	if again := m.Snapshot(); !bytes.Equal(again, data) {
		r.Fatalf("the snapshot of what was loaded is another one:\n%q\n%q", again, data)
	}
	if m.Hash() != r.machine.Hash() {
		r.Fatalf("the hash of what was loaded is another one")
	}
	clear(data)
	r.machine = m
}

// check holds everything the machine says against the model.
func (r *runner) check() {
	r.Helper()
	m, want := r.machine, r.model
	if m.Index() != want.index || m.Term() != want.term || m.Counter() != want.counter || m.Len() != len(want.keys) {
		r.Fatalf("index %d term %d counter %d keys %d, want %d %d %d %d", m.Index(), m.Term(), m.Counter(), m.Len(),
			want.index, want.term, want.counter, len(want.keys))
	}
	sum := uint64(0)
	for _, key := range want.sortedKeys() {
		sum ^= hashKey(key, want.keys[key])
	}
	if m.keysHash != sum || m.gaps.missing != want.missingCount() {
		r.Fatalf("hash of the keys %x, want %x; %d tokens missing, want %d", m.keysHash, sum, m.gaps.missing, want.missingCount())
	}
	if what := m.gaps.check(m.counter); what != "" {
		r.Fatalf("%s: %v", what, m.gaps)
	}
	r.checkKeys()
	r.checkMembers()
}

func (r *runner) checkKeys() {
	r.Helper()
	m, want := r.machine, r.model
	for _, key := range testKeys {
		token, seconds, ok := m.Get([]byte(key))
		if h, isHeld := want.keys[key]; ok != isHeld || token != h.token || seconds != h.lease {
			r.Fatalf("key %.4q: token %d lease %d held %v, want %+v", key, token, seconds, ok, h)
		}
	}
	seen, last := 0, uint64(0)
	for h := range m.Held {
		if (held{h.Token, h.Lease}) != want.keys[h.Key] || h.Token <= last {
			r.Fatalf("held %+v after token %d, want %+v", h, last, want.keys[h.Key])
		}
		seen, last = seen+1, h.Token
	}
	if seen != len(want.keys) {
		r.Fatalf("%d of %d keys were told", seen, len(want.keys))
	}
}

func (r *runner) checkMembers() {
	r.Helper()
	members := r.machine.Members()
	for i, member := range members {
		if member != r.model.members[member.ID] || i > 0 && members[i-1].ID >= member.ID {
			r.Fatalf("member %+v, want %+v", member, r.model.members[member.ID])
		}
		if one, ok := r.machine.Member(member.ID); !ok || one != member {
			r.Fatalf("member %d: %+v", member.ID, one)
		}
	}
	if len(members) != len(r.model.members) {
		r.Fatalf("%d members, want %d", len(members), len(r.model.members))
	}
}

func (r *runner) logf(format string, args ...any) {
	r.trace = append(r.trace, fmt.Sprintf(format, args...))
}

// Fatalf fails with the entries that led there.
func (r *runner) Fatalf(format string, args ...any) {
	r.Helper()
	r.failer.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(r.trace[max(0, len(r.trace)-40):], "\n"))
}

func randomProgram(seed uint64, length int) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	program := make([]byte, length)
	for i := range program {
		program[i] = byte(random.Uint32())
	}
	return program
}

// Rapid draws only seed and length: its own bytes are mostly small, and so of
// few entries.
func TestPrograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		run(t, randomProgram(seed, rapid.IntRange(0, 1500).Draw(t, "length")))
	})
}

func FuzzPrograms(f *testing.F) {
	for seed := range uint64(16) {
		f.Add(randomProgram(seed, 300))
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) < 2048 {
			run(t, program)
		}
	})
}
