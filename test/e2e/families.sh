#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every family of models, small and on made-up data: one learner goes down in loss; 24 steps = 12 steps and a
# resume, bit for bit; two learners in step (hardsync) do what one does; so do the workers of one learner, however they
# share the net, also after a resume with another number of them; so do two server groups that merge at every update;
# every protocol ends with a balanced ledger.
#
#   FAMILIES="gru rbm" and PROTOCOLS="async" restrict it.
set -uo pipefail
. "$(dirname "$0")/help.sh"
needs jq python3

texts='{reader: synthetic, vocab: 20, shape: [8], streams: 8, records: 400, noise: 0.1}'
sentences='{reader: synthetic, vocab: 40, shape: [12], classes: 4, records: 400, noise: 0.1}'
bare_images='{reader: synthetic, shape: [1, 8, 8], classes: 4, records: 400, noise: 0.2}'
images="${bare_images%\}}, scale: 0.0039}"

# $1 = family; sets data, net, train, updater
describe() {
    data=$images train='algorithm: bp' updater='type: sgd, momentum: 0.9, rate: 0.05'
    case $1 in
    gru | lstm | rnn)
        data=$texts train='algorithm: bptt' updater='type: rmsprop, rate: 0.005, clip_value: 5'
        net="
  - {name: r, type: $1, hidden: 16, src: [data.words, data.begin]}
  - {name: ip, type: inner_product, outputs: 20, axis: 2}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}" ;;
    unrolled)
        data=$texts train='algorithm: bptt' updater='type: adam, rate: 0.01'
        net='
  - name: r
    type: gru_cell
    hidden: 16
    unroll: 8
    src: [data.words, {layer: r, shift: 1}, {layer: data.begin, connect: one_to_all}]
  - {name: ip, type: inner_product, outputs: 20, unroll: 8}
  - {name: loss, type: softmax_loss, src: [ip, data.label], unroll: 8}' ;;
    rbm)
        train='algorithm: cd' updater='type: sgd, momentum: 0.9, early_momentum: 0.5, early: 1, rate: 0.05'
        net='
  - {name: rbm, type: rbm, src: data.image, hidden: 24, sparsity: 0.1}' ;;
    pcd)
        train='algorithm: {type: cd, k: 2, persistent: true}'
        net='
  - {name: rbm, type: rbm, src: data.image, hidden: 24}' ;;
    crbm)
        train='algorithm: cd'
        net='
  - {name: past, type: slice, src: data.image, axis: 2, outputs: 2}
  - {name: u, type: flatten, src: past.0}
  - {name: v, type: flatten, src: past.1}
  - {name: rbm, type: rbm, src: [v, u], hidden: 16}' ;;
    dbn)
        train='algorithm: cd'
        net='
  - {name: rbm1, type: rbm, src: data.image, hidden: 24, weight: {lr: 0}, hidden_bias: {lr: 0}}
  - {name: rbm2, type: rbm, hidden: 12}' ;;
    dbm)
        train='algorithm: {type: cd, k: 1, persistent: true}'
        net='
  - {name: dbm, type: dbm, src: data.image, hidden: [16, 8]}' ;;
    denoising)
        updater='type: adam, rate: 0.01'
        net='
  - {name: noisy, type: noise, src: data.image, kind: mask, level: 0.3}
  - {name: enc, type: inner_product, outputs: 24}
  - {name: code, type: sigmoid}
  - {name: dec, type: inner_product, outputs: 64, transpose: true, weight: {name: enc.weight}}
  - {name: loss, type: sigmoid_loss, src: [dec, data.image]}' ;;
    sparse)
        updater='type: adagrad, rate: 0.05'
        net='
  - {name: enc, type: inner_product, src: data.image, outputs: 24}
  - {name: code, type: sigmoid}
  - {name: few, type: sparsity, target: 0.1}
  - {name: dec, type: inner_product, outputs: 64}
  - {name: loss, type: sigmoid_loss, src: [dec, data.image]}' ;;
    kim)
        data=$sentences updater='type: adadelta, rate: 1'
        net='
  - {name: words, type: embedding, src: data.words, dim: 40, pad: true}
  - {name: conv, type: sentence_convolution, widths: [2, 3], filters: 40}
  - {name: drop, type: dropout, ratio: 0.3}
  - {name: ip, type: inner_product, outputs: 4, weight: {max_norm: 3}}
  - {name: loss, type: softmax_loss, src: [ip, data.class]}' ;;
    two_paths)
        awk 'BEGIN { for (i = 0; i < 400; i++) print "c" i % 4 "\tw" i % 4 " w" i % 5 " w" i % 7 " w" i % 11 }' >"$dir/tags.tsv"
        data="{reader: zip, names: [image, label, words, class], scale: 0.0039,
    parts: [$bare_images, {reader: sentences, file: $dir/tags.tsv}]}"
        updater='type: sgd, momentum: 0.9, rate: 0.02'
        net='
  - {name: conv, type: convolution, src: data.image, filters: 6, kernel: 3}
  - {name: relu, type: relu}
  - {name: image_code, type: inner_product, outputs: 6}
  - {name: image_class, type: inner_product, outputs: 4}
  - {name: image_loss, type: softmax_loss, src: [image_class, data.label]}
  - {name: words, type: embedding, src: data.words, dim: 8, pad: true}
  - {name: mean, type: max_over_time, src: [words, data.words], method: mean}
  - {name: text_code, type: inner_product, outputs: 6}
  - {name: text_class, type: inner_product, outputs: 4}
  - {name: text_loss, type: softmax_loss, src: [text_class, data.class]}
  - {name: near, type: euclidean_loss, src: [image_code, text_code], loss_weight: 0.1}' ;;
    esac
}

write_job() { # $1 = family, $2 = steps
    describe "$1"
    cat >"$1.yaml" <<JOB
name: $1
seed: 7
data:
  train: $data
net:$net
train: {$train, batch: 8, steps: $2}
updater: {$updater}
checkpoint: {every: 12 steps, keep: 10}
log: {every: 1 steps}
JOB
}

loss_goes_down() { # mean of the first and of the last quarter of the losses
    jq -s -e 'map(.loss // .train_loss | numbers) | (length / 4 | floor) as $q
        | (.[:$q] | add / $q) > (.[-$q:] | add / $q)' "$1/metrics.jsonl" >/dev/null ||
        bad "$1: the loss does not go down: $(jq -c '.loss // .train_loss' "$1/metrics.jsonl" | tr '\n' ' ')"
}

resumes() {
    run "$1-half" "$1.yaml" --steps 12 || return
    rm -f "$1-half/model.safetensors"
    timeout 60 "$MUSTER" train "$1.yaml" --resume "$1-half" --quiet 2>"$1-half.err" ||
        { bad "$1: resume: $(tail -n 4 "$1-half.err")"; return; }
    cmp "$1/model.safetensors" "$1-half/model.safetensors" || bad "$1: a resumed run differs"
}

same_as_one() { # FAMILY RUN: the weights against those of one learner
    near "$1" "$2" 1e-4 || bad "$2: differs from one learner"
}

for f in ${FAMILIES:-gru lstm rnn unrolled rbm pcd crbm dbn dbm denoising sparse kim two_paths}; do
    write_job "$f" 24
    run "$f" "$f.yaml" || continue
    loss_goes_down "$f"
    resumes "$f"
    for p in ${PROTOCOLS:-hardsync softsync async hogwild ssp mirror}; do
        run "$f-$p" "$f.yaml" --learners 2 --protocol "$p" || continue
        # the mean of a share and running means are another function of the batch there
        if [ "$p" = hardsync ] && [ "$f" != sparse ]; then same_as_one "$f" "$f-$p"; fi
    done
    # Two of them by batch: of a third of it so small a vocabulary would be updated row by row, which is another rule.
    for split in 'workers: 2' 'workers: 3, partition: feature'; do
        [[ $f == denoising && $split == *feature ]] && continue # tied weights are cut alike or not at all
        run "$f-split" "$f.yaml" --set "cluster={$split}" || continue
        same_as_one "$f" "$f-split"
        rm -rf "$f-split"
    done
    if run "$f-part" "$f.yaml" --steps 12 --set cluster.workers=2; then
        rm -f "$f-part/model.safetensors"
        timeout 60 "$MUSTER" train "$f.yaml" --resume "$f-part" --quiet --set cluster.workers=3 \
            --set cluster.partition=none 2>"$f-part.err" && same_as_one "$f" "$f-part" ||
            bad "$f: resume with three workers: $(tail -n 4 "$f-part.err")"
    fi
    # Two server groups. Merged at every update they are one learner where updates are sums of gradients.
    groups=(--learners 2 --set cluster.server_groups=2)
    run "$f-groups" "$f.yaml" "${groups[@]}" --set cluster.sync_every=5 --set cluster.merge=outer
    if [[ $f =~ ^(crbm|dbn|two_paths)$ ]] && run "$f-each" "$f.yaml" "${groups[@]}" --set cluster.sync_every=1; then
        same_as_one "$f" "$f-each"
    fi
    echo "$f: done"
done
finish
