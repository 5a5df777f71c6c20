package cluster

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"ticketing/cluster/state"
)

// identity is who the data in a directory belongs to. It is the metadata of the
// log, so it is there exactly if the log is.
type identity struct {
	Version   int    `json:"version"`
	Cluster   string `json:"cluster"`
	ClusterID uint64 `json:"cluster_id,string"`
	Node      string `json:"node"`
	Instance  string `json:"instance"` // random: made with the directory
}

const identityVersion = 1

func newIdentity(cfg *Config, cluster uint64) identity {
	return identity{identityVersion, cfg.Cluster, cluster, cfg.Node, rand.Text()}
}

// readIdentity reads the metadata of a log, and holds it against the settings.
func readIdentity(data []byte, cfg *Config) (id identity, err error) {
	if err := json.Unmarshal(data, &id); err != nil {
		return id, fmt.Errorf("the log in %s does not say whose it is: %w: %s", cfg.Dir, err, startAnew)
	}
	switch {
	case id.Version != identityVersion:
		return id, fmt.Errorf("the data in %s is of version %d, this program knows version %d: use the program that wrote it",
			cfg.Dir, id.Version, identityVersion)
	case id.Cluster != cfg.Cluster:
		return id, fmt.Errorf("CLUSTER_NAME=%q, but the data in %s is of cluster %q: set either right", cfg.Cluster, cfg.Dir, id.Cluster)
	case id.Node != cfg.Node:
		return id, fmt.Errorf("CLUSTER_NODE_ID=%q, but the data in %s is of node %q: set either right", cfg.Node, cfg.Dir, id.Node)
	}
	return id, nil
}

// genesis is the snapshot that every first member starts from, alike.
func genesis(first []Peer) (*raftpb.Snapshot, error) {
	first = slices.SortedFunc(slices.Values(first), func(a, b Peer) int { return cmp.Compare(a.Name, b.Name) })
	m := state.New()
	conf := &raftpb.ConfState{}
	for _, p := range first {
		member := state.Member{ID: NodeID(p.Name), Name: p.Name, Peer: p.Addr}
		if err := m.Apply(m.Index()+1, 1, state.EncodeMember(nil, state.Header{}, member)); err != nil {
			return nil, err
		}
		conf.Voters = append(conf.Voters, member.ID)
	}
	slices.Sort(conf.Voters)
	return &raftpb.Snapshot{Data: m.Snapshot(), Metadata: &raftpb.SnapshotMetadata{
		Index: new(m.Index()), Term: new(m.Term()), ConfState: conf,
	}}, nil
}

// found makes a disk for a node that starts for the first time. A nil snapshot
// is for a node that joins: it gets everything from the others.
func found(dir string, id identity, start *raftpb.Snapshot, log *slog.Logger) (*disk, *kept, error) {
	metadata, err := json.Marshal(id)
	if err != nil {
		return nil, nil, err
	}
	d, err := createDisk(dir, metadata, log)
	if err != nil {
		return nil, nil, err
	}
	k := &kept{metadata: metadata, snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{}}}
	if start != nil {
		if err := d.begin(start, k); err != nil {
			return nil, nil, err
		}
	}
	return d, k, nil
}

// begin writes the snapshot that a first member starts from.
func (d *disk) begin(start *raftpb.Snapshot, k *kept) error {
	m := start.GetMetadata()
	k.snapshot = start
	k.hard = &raftpb.HardState{Term: new(m.GetTerm()), Vote: new(uint64(0)), Commit: new(m.GetIndex())}
	if err := d.saveSnapshot(start); err != nil {
		return err
	}
	return d.save(k.hard, nil)
}

// load puts what was kept into memory.
func (k *kept) load() (*raft.MemoryStorage, *state.Machine, error) {
	storage, machine := raft.NewMemoryStorage(), state.New()
	if !raft.IsEmptySnap(k.snapshot) {
		var err error
		if machine, err = state.Load(k.snapshot.GetData()); err != nil {
			return nil, nil, fmt.Errorf("snapshot at entry %d: %w", k.snapshot.GetMetadata().GetIndex(), err)
		}
		if err := storage.ApplySnapshot(k.snapshot); err != nil {
			return nil, nil, err
		}
	}
	if k.hard != nil {
		if err := storage.SetHardState(k.hard); err != nil {
			return nil, nil, err
		}
	}
	return storage, machine, storage.Append(k.entries)
}
