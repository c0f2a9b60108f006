#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is called computing and waiting is the same for one learner and for several: where reading takes far longer
# than computing all of them wait most of the time. Waiting for samples is not computing.
source "$(dirname "$0")/../storm/help.sh"
command -v python3 > /dev/null || exit 77

# Pictures that take milliseconds to read, for a net that needs microseconds.
python3 - "$dir/pictures" <<'PYTHON'
import os, struct, sys, zlib
def chunk(kind, data): return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
size = 1024
for label in 'ab':
    os.makedirs(f'{sys.argv[1]}/{label}')
    for i in range(8):
        rows = b''.join(b'\0' + bytes((x * y * (i + 3) >> 4 ^ x) & 255 for x in range(size)) for y in (i, 99) * (size // 2))
        with open(f'{sys.argv[1]}/{label}/{i}.png', 'wb') as f:
            f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', size, size, 8, 0, 0, 0, 0))
                    + chunk(b'IDAT', zlib.compress(rows, 1)) + chunk(b'IEND', b''))
PYTHON
cat > "$dir/job.yaml" <<JOB
name: waiting
data: {train: {reader: image_folder, root: $dir/pictures, height: 8, width: 8, channels: 1}}
net:
  - {name: fc, type: inner_product, src: data.image, outputs: 2}
  - {name: loss, type: softmax_loss, src: [fc, data.label]}
train: {batch: 4, steps: 50}
updater: {type: sgd, rate: 0.001}
checkpoint: {every: never}
log: {tensorboard: false}
JOB

for cluster in '{learners: 1}' '{learners: 2}' '{learners: 2, protocol: async}' '{learners: 2, protocol: mirror}' \
    '{learners: 2, protocol: hogwild}'; do
    start "$dir/run" "$dir/job.yaml" --set "cluster=$cluster"
    finish 0 60 "$cluster"
    echo "$cluster: overlap $(number overlap), computing $(number compute_s) s, waiting $(number wait_s) s"
    awk "BEGIN { exit !($(number overlap) < 0.4) }" || fail "$cluster: overlap $(number overlap)"
    rm -rf "$dir/run"
done
