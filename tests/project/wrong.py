"""Wrong command lines, and what each ends in: the table of ``tests.project.test_wrong``.

As a program it runs them in one process in which torch cannot be imported, and prints what became of each as JSON; a
line that wanted torch is known by that. ``python -m tests.project.wrong --seconds`` runs each line as a process of its
own, and prints a table with processor time, exit status, command and sentence, the longest first.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

#: A command line after ``probes``, its exit status, and how its sentence begins. The lines may name the files below.
LINES = """
scroe tiny-causal -> 2 No command is called 'scroe' (did you mean 'score'?)
score -> 2 Name a model, such as tiny-causal, or give --base-url
score tiny-causal --limit 0 -> 2 Invalid value for '--limit'
score tiny-causal --limit -3 -> 2 Invalid value for '--limit'
score tiny-causal --limit many -> 2 Invalid value for '--limit'
score tiny-causal --profile papr -> 2 Invalid value for '--profile': 'papr' is not one of 'clean', 'paper' (did you
score tiny-causal --dtype int8 -> 2 Invalid value for '--dtype': 'int8' is not one of 'auto', 'float32',
score tiny-causal --quantize 3bit -> 2 Invalid value for '--quantize': '3bit' is not one of '4bit', '8bit' (did you
score tiny-causal --resamples 1 -> 2 Invalid value for '--resamples'
score tiny-causal --batch-tokens 0 -> 2 Invalid value for '--batch-tokens'
score tiny-causal --bencmarks occugender -> 2 No such option: --bencmarks
score tiny-causal --benchmarks ocugender -> 1 No benchmark is called 'ocugender' (did you mean 'occugender'?)
score tiny-causal --benchmarks occugender,nutral -> 1 No benchmark is called 'nutral' (did you mean 'neutral'?)
score tiny-causal --benchmarks stereoset --benchmarks nutral -> 1 No benchmark is called 'nutral' (did you mean 'neutral
score stereoset -> 1 'stereoset' is a benchmark and no model; write MODEL --benchmarks stereoset.
score stereoset tiny-causal -> 1 'stereoset' is a benchmark and no model
score tiny-causal stereoset -> 1 'stereoset' is a benchmark and no model
score gender-neutral-probes -> 1 'gender-neutral-probes' is a data set and no model
score https://huggingface.co/org/name -> 1 'https://huggingface.co/org/name' is an address; give a model by its name on
score tiny-causal http://127.0.0.1:8000/v1 -> 1 'http://127.0.0.1:8000/v1' is an address
score 'C:\\models\\name' -> 1 There is no folder 'C:
score tiny-causal --fail-if occugender.gapp>20 -> 1 --fail-if 'occugender.gapp>20' names no metric of occugender
score tiny-causal --fail-if ocugender.gap>20 -> 1 --fail-if 'ocugender.gap>20' names no benchmark
build occugender,nuetral -> 1 No data set is called 'nuetral'
build stereoset -> 1 No data set is called 'stereoset'
score tiny-causal --prompt debias-7 -> 1 No prompt is called 'debias-7' (did you mean 'debias-6'?)
score tiny-causal --prompt missing.json -> 1 The prompt file missing.json cannot be read
mitigate nowhere tiny-causal -> 2 No command is called 'nowhere'; give one of
score tiny-causal --data nowhere -> 2 There is no folder nowhere
score tiny-causal --data nowhere --benchmarks occugender -> 2 There is no folder nowhere
score tiny-causal --data hub: -> 1 hub: names no organisation of the Hub
score tiny-causal --system hello -> 1 Only a chat has a system text
score tiny-causal --chat --truncate -> 1 A chat is not cut to the context window
score tiny-causal --compare nowhere -> 1 nowhere has no results.json to compare with
score nowhere --compare nowhere -> 1 nowhere has no results.json to compare with
score tiny-causal --include nowhere.py -> 1 nowhere.py is not a Python file
score tiny-causal --include . -> 1 . is not a Python file
score tiny-causal --dry-run -> 2 There is no built data set bbq in output
score tiny-causal --budget 3 -> 1 --budget is of answers that a chat API samples
score tiny-causal --concurrency 3 -> 1 --concurrency is of servers; leave it out, or give their --base-url
score --base-url http://127.0.0.1:9/v1 --samples 3 -> 1 --samples is of answers that a chat API samples
score --base-url http://127.0.0.1:9/v1 --device cpu -> 1 --device says how a model is loaded, and a server has loade
score --base-url http://127.0.0.1:9/v1 --dtype float32 -> 1 --dtype says how a model is loaded, and a server has loa
score --base-url http://127.0.0.1:9/v1 --exact -> 1 --exact says how a model is loaded, and a server has loaded it a
score --base-url http://127.0.0.1:9/v1 --concurrency 0 -> 2 Invalid value for '--concurrency'
score --base-url http://127.0.0.1:9/v1 --timeout 0 -> 2 Invalid value for '--timeout'
score --chat-api -> 2 A chat API needs the name of a model
score --chat-api --model-name m --base-url http://a/v1 --base-url http://b/v1 -> 2 A chat API needs the name of a mo
score --chat-api --model-name m --samples 0 -> 2 Invalid value for '--samples'
score --chat-api --model-name m --temperature -1 -> 2 Invalid value for '--temperature'
score --chat-api --model-name m --prompt temperature-0.5 -> 1 The prompt 'temperature-0.5' has decoding settings, an
score --chat-api --model-name m --benchmarks crows_pairs -> 1 The benchmark crows_pairs needs log-probabilities, whi
score --chat-api tiny-causal --model-name m -> 1 Both the model 'tiny-causal' and a server are given
score tiny-causal --revision -> 2 Option '--revision' requires an argument
compare -> 2 Missing argument 'RUN'
compare nowhere -> 2 Missing argument 'BASE'
compare nowhere elsewhere -> 1 nowhere cannot be read as results
compare nowhere elsewhere --resamples 0 -> 2 Invalid value for '--resamples'
compare . . -> 1 results.json cannot be read as results
published nothing -> 1 No published source is called 'nothing'
published gest --model nothing -> 1 gest has no model 'nothing'
published gest --resamples 1 -> 2 Invalid value for '--resamples'
rescore -> 2 Missing argument 'file'
rescore nowhere.csv -> 2 Missing option '--benchmark'
rescore nowhere.csv --benchmark unstereo -> 1 There is no file nowhere.csv
rescore nowhere.csv --benchmark unsterio -> 1 No benchmark is called 'unsterio' (did you mean 'unstereo'?)
rescore nowhere.csv --benchmark occugender -> 1 There is no file nowhere.csv
rescore nowhere.csv --benchmark biaske -> 1 biaske is computed neither from scores nor from texts alone
rescore nowhere.csv --benchmark unstereo --resamples 1 -> 2 Invalid value for '--resamples'
build nothing -> 1 No data set is called 'nothing'
build ocugender -> 1 No data set is called 'ocugender' (did you mean 'occugender'?)
build --profile papr -> 2 Invalid value for '--profile': 'papr' is not one of 'all', 'clean', 'paper'
build occugender --include nowhere.py -> 1 nowhere.py is not a Python file
build --ofline -> 2 No such option: --ofline
build occugender --mirror -> 2 Option '--mirror' requires an argument
mitigate nothing tiny-causal --out x -> 2 No command is called 'nothing'
mitigate fst tiny-causal --out x -> 2 No command is called 'fst' (did you mean 'fast'?)
mitigate fast -> 2 Missing argument 'MODEL'
mitigate fast tiny-causal -> 2 Missing option '--out'
mitigate fast tiny-causal --out x --profile papr -> 2 Invalid value for '--profile': 'papr' is not one of 'clean', '
mitigate fast tiny-causal --out x --limit 0 -> 2 Invalid value for '--limit'
mitigate fast tiny-causal --out x --stepz many -> 2 No such option: --stepz
mitigate fast tiny-causal --out x --quantize 8bit -> 2 Invalid value for '--quantize': '8bit' is not one of 'auto',
mitigate fast tiny-causal --out x --dtype int8 -> 2 Invalid value for '--dtype': 'int8' is not one of 'auto', 'float
mitigate fast tiny-causal --out x --config nowhere.toml -> 1 nowhere.toml cannot be read
mitigate fast tiny-causal --out x --benchmarks ocugender -> 1 No benchmark is called 'ocugender' (did you mean 'occu
mitigate fast tiny-causal --out x --data nowhere -> 2 There is no folder nowhere
mitigate prompts tiny-causal --out x --prompt nothing -> 1 No prompt is called 'nothing'
mitigate prompts tiny-causal --out x --text nowhere.txt -> 1 nowhere.txt cannot be read as text
mitigate prompts tiny-causal --out x --resamples 0 -> 2 Invalid value for '--resamples'
mitigate --include nowhere.py prompts tiny-causal --out x -> 1 nowhere.py is not a Python file
mitigate methods -> 2 Missing argument '[RECIPE] MODEL
mitigate methods tiny-causal --methods fst -> 1 No recipe is called 'fst' (did you mean 'fast'?)
mitigate methods tiny-causal --seeds 0 -> 2 Invalid value for '--seeds'
mitigate methods tiny-causal --config nowhere.toml -> 1 nowhere.toml cannot be read
mitigate table fast inlp tiny-causal -> 1 fast inlp tiny-causal are more than a recipe and a model
mitigate methods tiny-causal --glue nothing -> 1 'nothing' is no task of GLUE
mitigate methods tiny-causal --data nowhere -> 2 There is no folder nowhere
mitigate table -> 2 Missing argument '[RECIPE] MODEL
mitigate table fst tiny-causal -> 1 No recipe is called 'fst' (did you mean 'fast'?)
mitigate table fast tiny-causal --domains age -> 1 The domain is 'age'
mitigate glue -> 2 Missing argument 'MODEL'
mitigate glue tiny-causal -> 2 Missing option '--out'
mitigate glue tiny-causal --out x --tasks nothing -> 1 'nothing' is no task of GLUE
mitigate glue tiny-causal --out x --seeds 0 -> 1 The setting seeds is 0
mitigate glue tiny-causal --out x --tasks "" -> 1 There is no task
publish -> 2 Missing argument 'DIR'
publish nowhere --repo org/name --dry-run -> 1 nowhere/mitigation.json cannot be read
publish . -> 2 Missing option '--repo'
push -> 2 Missing argument 'DIR'
push nowhere --org me --dry-run -> 1 nowhere has no built data set
push nowhere -> 2 Invalid value: --org is ''; name one organisation or user of the Hub
push nowhere --org "a b" --dry-run -> 2 Invalid value: --org is 'a b'; name one
push nowhere --org me/too --dry-run -> 2 Invalid value: --org is 'me/too'; name one
card -> 2 Missing argument 'MODEL'
card org/name -> 2 Missing argument 'RUN'
card org/name nowhere -> 2 Invalid value: --org is ''; name the organisation
card org/name nowhere --org me -> 1 nowhere cannot be read as results
leaderboard -> 2 Missing argument 'RUN|ORG|ORG/MODEL|ORG/DATASET...'
pmi cuont -> 2 No command is called 'cuont' (did you mean 'count'?)
pmi count -> 2 Missing argument 'CORPUS...'
pmi count nowhere.txt --window 0 --out x -> 2 Invalid value for '--window'
pmi table -> 2 Missing argument 'COUNTS'
pmi table nowhere.npz -> 1 There is no file nowhere.npz
pmi table nowhere.npz --min-count 0 -> 2 Invalid value for '--min-count'
pmi table nowhere.npz --format pdf -> 2 Invalid value for '--format': 'pdf' is not one of 'svg', 'png'
pmi compare a -> 2 Missing argument 'TABLE'
pmi compare a b -> 1 a has the ending ''
pmi score nowhere.txt -> 2 Missing option '--table'
pmi merge -> 2 Missing argument 'COUNTS...'
pmi vocabulary nowhere -> 1 nowhere has the ending ''
pmi compare-model nowhere -> 2 Missing option '--table'
generate nothing -> 2 No command is called 'nothing'
generate prbes -> 2 No command is called 'prbes' (did you mean 'probes'?)
generate probes -> 2 Missing option '--model'
generate probes --model m -> 2 Missing option '--out'
generate probes --model m --out x --count 0 -> 2 Invalid value for '--count'
generate probes --model m --out x --overlap 2 -> 2 Invalid value for '--overlap'
generate probes --model m --out x --temperature nan -> 1 --temperature is nan
generate probes --model m --out x --concurrency 0 -> 2 Invalid value for '--concurrency'
generate probes --model m --out x --against nowhere.txt --dry-run -> 1 nowhere.txt cannot be used
generate unstereo --model m --out x --words nowhere.txt --dry-run -> 1 The words in nowhere.txt cannot be read
generate unstereo --out x --replay nothing -> 1 There is no recorded generation 'nothing' of unstereo
generate unstereo --out x --model m -> 1 --words is missing
doctor --data -> 2 Option '--data' requires an argument
list extra -> 2 Got unexpected extra argument(s)
score gpt2 --limit 5 --benchmark occugender -> 2 No such option: --benchmark
score gpt2 --benchmarks -> 2 Option '--benchmarks' requires an argument.
score --model gpt2 --benchmarks occugender -> 2 No such option: --model
score tiny-causal --tasks occugender -> 2 No such option: --tasks
score tiny-causal --benchmarks all -> 1 All benchmarks are scored where --benchmarks is left out; leave it out, or n
score tiny-causal --benchmarks OccuGender -> 1 No benchmark is called 'OccuGender' (did you mean 'occugender'?); the
score tiny-causal --benchmarks occu-gender -> 1 No benchmark is called 'occu-gender' (did you mean 'occugender'?); t
score tiny-causal --benchmarks "occugender;gest" -> 1 No benchmark is called 'occugender;gest' (did you mean 'occuge
score tiny-causal --benchmarks prompts -> 1 The benchmark prompts needs a file of yours; name it with --prompts.
score tiny-causal --benchmarks unstereo.tau -> 1 No benchmark is called 'unstereo.tau' (did you mean 'unstereo'?); t
score tiny-causal --n 10 -> 2 No such option: --n
score tiny-causal --limit 10% -> 2 Invalid value for '--limit'
score tiny-causal --limit=-1 -> 2 Invalid value for '--limit'
score tiny-causal --limit 1.5 -> 2 Invalid value for '--limit'
score tiny-causal --device gpu -> 1 No device is called 'gpu'; give cpu, cuda, cuda:1 …, or auto for all there are.
score tiny-causal --dtype fp16 -> 2 Invalid value for '--dtype': 'fp16' is not one of 'auto', 'float32', 'bfloat16',
score tiny-causal --dtype bf16 -> 2 Invalid value for '--dtype': 'bf16' is not one of 'auto', 'float32', 'bfloat16',
score tiny-causal --batch-size 8 -> 2 No such option: --batch-size
score tiny-causal --output x -> 2 No such option: --output
score tiny-causal -o x -> 2 No such option: -o
score tiny-causal --seed 1 -> 1 --seed is of answers that a chat API samples; leave it out, or add --chat-api.
score tiny-causal --temperature 0.5 -> 1 --temperature is of answers that a chat API samples; leave it out, or add -
score tiny-causal --token hf_x -> 2 No such option: --token
score tiny-causal --revision v9 -> 1 'tiny-causal' is a folder, which has no revision 'v9'; leave out --revision.
score tiny-casual -> 1 'tiny-casual' (did you mean 'tiny-causal'?) is no bundled model; give a name of the Hub or a
score tiny_causal -> 1 'tiny_causal' (did you mean 'tiny-causal'?) is no bundled model; give a name of the Hub or a
score ./mymodel ./other --prompts prompts.csv -> 4 2 of 2 models could not be scored: ./mymodel (exit status 1), ./o
score ./mymodel -> 1 There is no folder './mymodel'; give a folder that is there, or a name on the Hub.
score mymodel/ -> 1 There is no folder 'mymodel/'; give a folder that is there, or a name on the Hub.
score emptydir -> 1 'emptydir' has no config.json, so transformers does not know it; give the folder of a transforme
score adapteronly -> 1 There is no folder './gone'; give a folder that is there, or a name on the Hub.
score prompts.csv -> 1 'prompts.csv' is a file and no model; give the folder of a model or its name on the Hub. Prom
score o -> 1 'o' has results of runs and no config.json; give the folder of a transformers model.
score notes.txt -> 1 'notes.txt' is a file and no model; give the folder of a model or its name on the Hub. Prompts
score meta-llama/Llama-3-8B --offline -> 1 --offline is of answers that a chat API samples; leave it out, or add --c
score gpt2,gpt2 -> 1 The model gpt2 is given twice; give each once.
score fast tiny-causal -> 2 'fast' is a recipe and no model; write probes mitigate fast MODEL --out FOLDER.
score tiny-causal fine_tuning -> 2 'fine_tuning' is a recipe and no model; write probes mitigate
score https://hf.co/datasets/a/b -> 1 'https://hf.co/datasets/a/b' is an address; give a model by its name on
score --models binary.bin -> 1 binary.bin is not UTF-8 text; give a text file with a model a line.
score --models nofile.txt -> 1 There is no file nofile.txt; give --models a text file with a model a line.
score --models emptydir -> 1 There is no file emptydir; give --models a text file with a model a line.
score tiny-causal tiny-causal -> 1 The model tiny-causal is given twice; give each once.
score tiny-causal --prompts -> 2 Option '--prompts' requires an argument.
score tiny-causal --prompts nofile.csv -> 1 There is no file nofile.csv; give a file of prompts (CSV, Excel, JSON or
score tiny-causal --prompts emptydir -> 1 There is no file emptydir; give a file of prompts (CSV, Excel, JSON or Par
score tiny-causal --prompts notes.txt -> 1 notes.txt has no rows; give a prompt or a pair in each.
score tiny-causal --prompts empty.csv -> 1 empty.csv is empty; give a column 'prompt' (and 'group', for groups of pr
score tiny-causal --prompts idtext.csv -> 1 idtext.csv has the columns id, text; give a column 'prompt' (and 'group'
score tiny-causal --prompts binary.bin -> 1 binary.bin cannot be read
score tiny-causal --prompt "You are fair" -> 1 No prompt is called 'You are fair'; the names are
score tiny-causal --prompt prompts.csv -> 1 prompts.csv is no prompt; prompts that are scored are given with --promp
score tiny-causal --chat -> 1 'tiny-causal' has no chat template, as base models have none; leave out --chat, or giv
score tiny-masked --chat -> 1 'tiny-masked' is a masked model, which does not chat; leave out --chat.
score tiny-masked --benchmarks occugender -> 1 The benchmark occugender is for causal models, and tiny-masked is a m
score tiny-causal --chat --benchmarks crows_pairs -> 1 'tiny-causal' has no chat template, as base models have none;
score tiny-causal --base-url localhost:8000 -> 1 Both the model 'tiny-causal' and a server are given; name the serve
score --base-url localhost:8000 -> 1 The address of the server is not valid; give --base-url an address such as http
score --base-url http://localhost:8000/v1 tiny-causal -> 1 Both the model 'tiny-causal' and a server are given; name
score tiny-causal --chat-api -> 2 A chat API needs the name of a model (--model-name), and at most one --base-url.
score tiny-causal --fail-if gap>20 -> 1 --fail-if 'gap>20' is no condition; give BENCHMARK.METRIC or BENCHMARK.GROUP
score tiny-causal --fail-if occugender.gender_gap -> 1 --fail-if 'occugender.gender_gap' is no condition; give BENCH
score tiny-causal --fail-if "occugender.gender_gap > twenty" -> 1 --fail-if 'occugender.gender_gap > twenty' is no c
score tiny-causal --fail-if "occugender gender_gap > 20" -> 1 --fail-if 'occugender gender_gap > 20' is no condition
score tiny-causal --fail-on worse -> 2 No such option: --fail-on
score tiny-causal --out notes.txt -> 1 notes.txt is a file, and a run has its own folder; give another --out.
score tiny-causal --out emptydir/../notes.txt/x -> 1 emptydir/../notes.txt is a file, and a run has its own folder;
score tiny-causal --out full -> 1 full/mine.txt was not written by this program, and a run has its own folder; give
score tiny-causal --data notes.txt -> 2 There is no folder notes.txt; run probes build bbq --out notes.txt, or give
score tiny-causal --data emptydir -> 2 There is no built data set bbq in emptydir; run probes build bbq --out emptyd
score tiny-causal --data hub:a/b -> 1 hub:a/b names no organisation of the Hub; give hub:ORG or hub:ORG@REVISION.
score tiny-causal --profile Paper -> 2 Invalid value for '--profile': 'Paper' is not one of 'clean', 'paper' (did yo
score tiny-causal --groups debiasing -> 2 Invalid value for '--groups': 'debiasing' is not one of 'headline', 'all'.
score tiny-causal --ways chat -> 1 No way to ask is called 'chat'; the ways are
score tiny-causal --wordings many -> 1 There are no 'many' wordings; give all, or a number from 2 to 10.
score tiny-causal --start -> 2 Option '--start' requires an argument.
score tiny-causal --compare o -> 1 o has no results.json to compare with; give --compare the folder of a run.
score tiny-causal --beside o -> 1 o has 2 runs, such as o/first, and is none itself; name one of them.
score tiny-causal --include notes.txt -> 1 notes.txt is not a Python file; give a file NAME.py that defines BENCHMAR
score --config nofile.yaml -> 2 There is no file nofile.yaml; give --config the run.yaml of a run.
score --config emptydir -> 2 There is no file emptydir; give --config the run.yaml of a run.
score --config notes.txt -> 2 notes.txt has no options; write one a line, such as limit: 20.
score --config binary.bin -> 2 binary.bin is no YAML; write an option a line, such as limit: 20.
score --config limmit.yaml -> 2 limmit.yaml has 'limmit' (did you mean 'limit'?), which is no option.
score --config limit.yaml -> 2 Invalid value for '--limit'
score --config bench.yaml -> 1 No benchmark is called 'nutral' (did you mean 'neutral'?)
score tiny-causal --quantize 4 -> 2 Invalid value for '--quantize': '4' is not one of '4bit', '8bit'.
score tiny-causal --executor local -> 2 Invalid value for '--executor': 'local' is not one of 'ray', 'slurm'.
score tiny-causal --results hub:x -> 1 --results is 'hub:x'; give a data set of the Hub as hub:ORG/NAME.
score tiny-causal --revisions -> 2 Option '--revisions' requires an argument.
score tiny-causal --version -> 2 No such option: --version
compare o -> 2 Missing argument 'BASE'.
compare tiny-causal tiny-masked -> 1 tiny-causal cannot be read as results
leaderboard emptydir -> 1 emptydir/results.json cannot be read as results
leaderboard notes.txt -> 1 notes.txt cannot be read as results (Invalid JSON: expected value at line 1 column 1); gi
leaderboard "o/*" -> 1 There is no file or folder o/*; name one, or an organisation or model of the Hub.
card org/name o -> 2 Invalid value: --org is ''; name the organisation that has the data sets, such as my-team.
card org/name notes.txt --org me -> 1 notes.txt cannot be read as results (Invalid JSON: expected value at line 1 co
build all -> 1 No data set is called 'all'; the names are
build occu-gender -> 1 No data set is called 'occu-gender' (did you mean 'occugender'?); the names are
build OccuGender -> 1 No data set is called 'OccuGender' (did you mean 'occugender'?); the names are
build occugender --out notes.txt -> 1 notes.txt cannot be written (File exists); choose another --out.
build occugender --data x -> 2 No such option: --data
build occugender --limit 3 -> 2 No such option: --limit
build crows_pairs -> 1 No data set is called 'crows_pairs'; the names are
build https://huggingface.co/datasets/x/y -> 1 No data set is called 'https://huggingface.co/datasets/x/y'; the name
build occugender gestt -> 1 No data set is called 'gestt' (did you mean 'gest'?); the names are
rebuild occugender -> 2 No command is called 'rebuild' (did you mean 'build'?).
mitigate tiny-causal -> 2 No command is called 'tiny-causal'; give one of
mitigate tiny-causal fast --out x -> 2 No command is called 'tiny-causal'; give one of
mitigate dpoo tiny-causal --out x -> 2 No command is called 'dpoo' (did you mean 'dpo'?).
mitigate fine-tuning tiny-causal --out x -> 2 No command is called 'fine-tuning' (did you mean 'fine_tuning'?).
mitigate fine_tuning nowhere/nothing/x --out x -> 1 There is no folder 'nowhere/nothing/x'; give a folder that is th
mitigate fine_tuning tiny-causal -o x -> 2 No such option: -o
mitigate fine_tuning tiny-causal --epochs 3 --out x -> 2 No such option: --epochs
mitigate fine_tuning tiny-causal --steps -5 --out x -> 1 The setting steps is -5; give a value of at least 0.
mitigate cda tiny-causal --report-to comet --out x -> 1 The setting report_to is 'comet'; give none, tensorboard
mitigate prompts tiny-causal --report-to wandb --out x -> 2 No such option: --report-to
mitigate cda fast --out x -> 1 'fast' is a recipe and no model; give a model, such as tiny-causal.
mitigate table fast -> 1 'fast' is a recipe and no model; give a model, such as tiny-causal.
mitigate fast tiny-causal --out full -> 1 full/mine.txt was not written by this program
mitigate fine_tuning tiny-causal --lr 0 --out x -> 2 No such option: --lr
mitigate fine_tuning tiny-causal --out notes.txt -> 1 notes.txt is a file, and an adapter has its own folder; give a
mitigate fine_tuning tiny-causal --device gpu --out x -> 1 No device is called 'gpu'; give cpu, cuda, cuda:1 …, or a
mitigate fine_tuning tiny-causal --pairs nofile.csv --out x -> 1 The pairs nofile.csv cannot be read
mitigate merge -> 2 Missing argument 'MODEL'.
mitigate merge nowhere -> 2 Missing argument 'ADAPTER'.
mitigate merge nowhere --out x -> 2 Missing argument 'ADAPTER'.
merge x -> 2 No command is called 'merge' (did you mean 'mitigate merge'?).
reproduce fasst -> 1 There is no table 'fasst' (did you mean 'fast'?); give a paper of
reproduce nothing -> 1 There is no table 'nothing'; give a paper of
published gest --model gpt22 -> 1 gest has no model 'gpt22'; probes published SOURCE lists the models of a source.
published gest --model -> 2 Option '--model' requires an argument.
published --all nothing -> 1 No published source is called 'nothing'; the names are
power -> 2 Missing argument 'benchmark'.
power occugender -> 2 Missing option '--n'.
power ocugender --n 50 -> 1 No benchmark is called 'ocugender' (did you mean 'occugender'?); the names are
power occugender --n 1 -> 2 Invalid value for '--n'
power occugender --n many -> 2 Invalid value for '--n'
power occugender --n 50 --run nowhere -> 1 nowhere cannot be read as results
power occugender --n 50 --run o -> 1 o has 2 runs, such as o/first, and is none itself; name one of them.
push nowhere --org me -> 1 nowhere has no built data set; run probes build --out nowhere first.
report -> 2 No command is called 'report' (did you mean 'score'?).
doctor x -> 2 Got unexpected extra argument(s)
doctor --data nowhere --fix -> 2 No such option: --fix
pmi count nowhere.txt -> 1 There is no file nowhere.txt; give files, folders, globs or addresses of a corpus.
pmi table notes.txt -> 1 notes.txt is not a Parquet file
pmi score notes.txt --table notes.txt -> 1 notes.txt has no column 'word'; a table of δ has word, delta, count, and
pmi compare-model o -> 2 Missing option '--table'.
pmi plot x -> 2 No command is called 'plot'; give one of
export nowhere -> 1 nowhere cannot be read as results
export o -> 1 o has 2 runs, such as o/first, and is none itself; name one of them.
publish adapteronly --repo org/name -> 1 adapteronly/mitigation.json cannot be read
publish x --repo name -> 1 'name' is not a repository of the Hub; give ORG/NAME with --repo.
rescore notes.txt --benchmark unstereo -> 1 notes.txt has the columns hello world but not dataset, female_logprob, m
list --benchmarks -> 2 No such option: --benchmarks
help -> 2 No command is called 'help' (did you mean '--help'?).
--verbose score -> 2 No such option: --verbose
version -> 2 No command is called 'version' (did you mean '--version'?).
scores tiny-causal -> 2 No command is called 'scores' (did you mean 'score'?).
run tiny-causal -> 2 No command is called 'run' (did you mean 'score'?).
eval tiny-causal -> 2 No command is called 'eval' (did you mean 'score'?).
evaluate tiny-causal -> 2 No command is called 'evaluate' (did you mean 'score'?).
benchmark tiny-causal -> 2 No command is called 'benchmark' (did you mean 'score'?).
debias tiny-causal -> 2 No command is called 'debias' (did you mean 'mitigate'?).
download occugender -> 2 No command is called 'download' (did you mean 'build'?).
install -> 2 No command is called 'install'; give one of
"""
#: The files of the folder in which the lines run, by name; a name that ends in a slash is an empty folder.
FILES = {
    "bench.yaml": "model: tiny-causal\nbenchmarks: [occugender, nutral]\n",
    "limit.yaml": "model: tiny-causal\nlimit: 0\n",
    "limmit.yaml": "model: tiny-causal\nlimmit: 3\n",
    "adapteronly/adapter_config.json": '{"peft_type": "LORA", "base_model_name_or_path": "./gone"}',
    "empty.csv": "",
    "emptydir/": "",
    "emptylist.txt": "",
    "full/mine.txt": "mine",
    "idtext.csv": "id,text\n1,a\n",
    "notes.txt": "hello world\n",
    "o/first/results.json": "{}",
    "o/second/results.json": "{}",
    "prompts.csv": "prompt\nThe nurse said that\n",
}
#: What is not imported for a wrong line: each takes seconds.
HEAVY = ("torch", "transformers")
#: What is imported for no wrong line but those that begin as :data:`READS`, whose rows come from a file.
SLOW = ("pandas", "matplotlib", "numba")
READS = ("pmi score notes.txt", "score ./mymodel ./other --prompts")


class Refused:
    """A finder of modules that has none of :data:`HEAVY`, and notes that one was wanted."""

    wanted = ""

    def find_spec(self, name: str, *_: Any) -> None:
        """Raises for a heavy module, and leaves the others to the finders after this one."""
        if name.partition(".")[0] in HEAVY:
            self.wanted = name
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def table() -> list[tuple[str, int, str]]:
    """The lines with their exit status and the beginning of their sentence."""
    rows = []
    for text in LINES.strip().splitlines():
        line, _, said = text.partition(" -> ")
        status, _, start = said.partition(" ")
        rows.append((line, int(status), start))
    return rows


def make_files(folder: Path) -> None:
    """Writes :data:`FILES` into a folder."""
    for name, content in FILES.items():
        if name.endswith("/"):
            (folder / name).mkdir()
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    (folder / "binary.bin").write_bytes(bytes(range(128, 256)))


def results() -> list[dict[str, Any]]:
    """Runs every line in a folder with the files, and says of each its status, its output and what it wanted."""
    refused = Refused()
    sys.meta_path.insert(0, refused)
    from typer.testing import CliRunner

    import probes

    found = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_files(Path(folder))
        # A module that one line has imported is there for the next ones.
        for line, _, _ in sorted(table(), key=lambda row: row[0].startswith(READS)):
            refused.wanted = ""
            done = CliRunner().invoke(probes.app, shlex.split(line))
            found.append(
                {
                    "line": line,
                    "status": done.exit_code,
                    "output": done.output,
                    "raised": "" if isinstance(done.exception, SystemExit) else repr(done.exception),
                    "wanted": refused.wanted,
                    "slow": [name for name in SLOW if name in sys.modules],
                }
            )
        os.chdir("/")
    return found


def measured() -> list[tuple[float, int, str, str]]:
    """Of each line as a process of its own: seconds of processor time, exit status, the line and its sentence."""
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "PROBES_PROGRESS": "off"}
    found = []
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder))
        for line, _, _ in table():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-m", "probes", *shlex.split(line)]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            found.append((seconds, done.returncode, line, done.stderr.strip().rpartition("\n")[2]))
    return found


def main() -> None:
    """Prints the results, or with ``--seconds`` the table with the processor time of each line."""
    if "--seconds" not in sys.argv:
        print(json.dumps(results()))
        return
    print("seconds | status | command | sentence")
    for seconds, status, line, sentence in sorted(measured(), reverse=True):
        print(f"{seconds:.2f} | {status} | probes {line} | {sentence}")


if __name__ == "__main__":
    main()
