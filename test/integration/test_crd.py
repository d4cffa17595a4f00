#!/usr/bin/env python3
"""The CRDs of the chart against a real API server: defaults, validation, CEL, status, patches; and the pods that the
operator would create, through admission and back.

usage: test/integration/test_crd.py [-k NAME]       (from the root of the repository; hack/kube provides the servers)

BUILD and VARIANT choose the build of the C part (default: build/release). Each case appends the contract's test vectors
that it has proved to $CC_VECTORS_LOG (default build/vectors.log).
"""
import copy, http.client, json, os, pathlib, re, shutil, ssl, subprocess, sys, tempfile, traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
GROUP = 'cocoonset.cocoonstack.io'
CASES = []


def case(*vectors):
    def register(function):
        CASES.append((function, vectors))
        return function
    return register


class Api:
    """One connection to the API server. Every call gives (status, body, headers)."""

    def __init__(self, directory):
        self.context = ssl.create_default_context(cafile=str(directory / 'certs' / 'apiserver.crt'))
        self.context.check_hostname = False  # the name in it is that of the service; the certificate itself is pinned
        self.port = int((directory / 'apiserver.port').read_text())
        self.token = (directory / 'tokens.csv').read_text().split(',')[0]

    def call(self, method, path, body=None, content='application/json'):
        connection = http.client.HTTPSConnection('127.0.0.1', self.port, context=self.context, timeout=30)
        headers = {'Authorization': 'Bearer ' + self.token, 'Accept': 'application/json', 'Content-Type': content}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if text.startswith(b'{') else text.decode(), answer.headers

    def make(self, path, body):
        status, answer, _ = self.call('POST', path, body)
        assert status == 201, (status, answer)
        return answer

    def merge(self, path, body):
        return self.call('PATCH', path, body, 'application/merge-patch+json')


class Space:
    """A namespace with CocoonSets and CocoonHibernations in it."""

    def __init__(self, api, name):
        self.api, self.name, self.count = api, name, 0
        api.make('/api/v1/namespaces', {'metadata': {'name': name}})
        api.make(f'/api/v1/namespaces/{name}/serviceaccounts', {'metadata': {'name': 'default'}})

    def path(self, plural, name='', sub=''):
        return f'/apis/{GROUP}/v1/namespaces/{self.name}/{plural}' + (f'/{name}' if name else '') + sub

    def object(self, kind, spec, **members):
        self.count += 1
        body = {'apiVersion': GROUP + '/v1', 'kind': kind, 'metadata': {'name': f'x{self.count}'}}
        if spec is not None:
            body['spec'] = spec
        body.update(members)
        return body

    def create(self, spec, kind='CocoonSet', **members):
        plural = kind.lower() + 's'
        return self.api.call('POST', self.path(plural), self.object(kind, spec, **members))

    def created(self, spec, kind='CocoonSet', **members):
        status, answer, _ = self.create(spec, kind, **members)
        assert status == 201, (status, answer)
        return answer

    def refused(self, spec, words, field=None, kind='CocoonSet'):
        refused(self.create(spec, kind), words, field)

    def patch(self, made, body, sub=''):
        return self.api.merge(self.path(made['kind'].lower() + 's', made['metadata']['name'], sub), body)

    def patched(self, made, body, sub=''):
        status, answer, _ = self.patch(made, body, sub)
        assert status == 200, (status, answer)
        return answer


def refused(result, words, field=None):
    status, answer, _ = result
    assert status == 422 and answer['reason'] == 'Invalid', (status, answer)
    assert words in answer['message'], answer['message']
    if field is not None:
        assert field in [c['field'] for c in answer['details']['causes']], answer


AGENT = {'image': 'x'}
RELEASE = 'hibernatePolicy=release requires agent.replicas=0 and no toolboxes'
IMMUTABLE = 'snapshotCompatibilityClass is immutable once set'


def with_agent(**members):
    return {'agent': {**AGENT, **members}}


def with_toolbox(**members):
    return {'agent': AGENT, 'toolboxes': [members]}


@case('01-10.1.1')
def no_spec(s):
    assert 'spec' not in s.created(None)


@case('01-10.1.2')
def defaults_of_a_minimal_set(s):
    spec = s.created({'agent': AGENT})['spec']
    assert spec == {'snapshotPolicy': 'always', 'hibernatePolicy': 'retain', 'nodePool': 'default',
                    'agent': {'image': 'x', 'replicas': 0, 'mode': 'clone', 'os': 'linux', 'backend': 'cloud-hypervisor'}}, spec


@case('01-10.1.3')
def defaults_of_a_toolbox(s):
    toolboxes = s.created(with_toolbox(name='a'))['spec']['toolboxes']
    assert toolboxes == [{'name': 'a', 'mode': 'run', 'os': 'linux', 'backend': 'cloud-hypervisor'}], toolboxes


@case('01-10.1.4')
def the_image_is_required(s):
    s.refused({}, 'Required value', 'spec.agent')
    s.refused({'agent': {}}, 'Required value', 'spec.agent.image')
    s.refused({'agent': {'image': ''}}, 'at least 1 chars long', 'spec.agent.image')


@case('01-10.1.5')
def replicas_are_an_int32(s):
    s.refused(with_agent(replicas=-1), 'greater than or equal to 0')
    s.refused(with_agent(replicas=2147483648), 'int32')
    s.refused(with_agent(replicas='1'), 'must be of type integer')
    assert s.created(with_agent(replicas=1.0))['spec']['agent']['replicas'] == 1


@case('01-10.1.6')
def enums_and_ports(s):
    s.refused(with_agent(mode='static'), 'Unsupported value')
    s.refused(with_agent(connType=''), 'Unsupported value')
    s.refused(with_agent(os=''), 'Unsupported value')
    s.refused(with_agent(probePort=65536), 'less than or equal to 65535')
    s.refused(with_toolbox(name='a', vncPort=70000), 'less than or equal to 65535')


@case('01-10.1.7')
def storage_is_a_quantity(s):
    assert s.created(with_agent(storage=1000000))['spec']['agent']['storage'] == 1000000
    s.created(with_agent(storage='-1Gi'))
    s.refused(with_agent(storage='10XB'), 'should match')
    s.refused(with_agent(storage=1.5), 'spec.agent.storage')


@case('01-10.1.8')
def toolbox_names(s):
    s.refused(with_toolbox(name='Bad_'), 'should match')
    s.refused(with_toolbox(name='a' * 64), 'may not be more than 63')
    s.created(with_toolbox(name='0'))
    s.created({'agent': AGENT, 'toolboxes': [{'name': 'a'}, {'name': 'a'}]})


@case('01-10.1.9')
def static_toolbox_without_an_address(s):
    s.created(with_toolbox(name='a', mode='static'))


@case('01-10.1.10')
def release_wants_a_main_only_set(s):
    made = s.created({'hibernatePolicy': 'release', 'agent': {**AGENT, 'replicas': 0}, 'toolboxes': []})
    s.refused({'hibernatePolicy': 'release', **with_agent(replicas=1)}, RELEASE, 'spec')
    s.refused({'hibernatePolicy': 'release', **with_toolbox(name='a')}, RELEASE, 'spec')
    refused(s.patch(made, {'spec': {'agent': {'replicas': 1}}}), RELEASE, 'spec')
    refused(s.patch(made, {'spec': {'toolboxes': [{'name': 'a'}]}}), RELEASE, 'spec')
    retained = s.created(with_agent(replicas=1))
    refused(s.patch(retained, {'spec': {'hibernatePolicy': 'release'}}), RELEASE, 'spec')


@case('01-10.1.11')
def class_can_be_set_once(s):
    made = s.created({'agent': AGENT})
    s.patched(made, {'spec': {'snapshotCompatibilityClass': 'abc'}})
    refused(s.patch(made, {'spec': {'snapshotCompatibilityClass': 'abd'}}), IMMUTABLE, 'spec')
    refused(s.patch(made, {'spec': {'snapshotCompatibilityClass': None}}), IMMUTABLE, 'spec')


@case('01-10.1.12')
def class_of_odd_texts(s):
    made = s.created({'snapshotCompatibilityClass': '', 'agent': AGENT})
    refused(s.patch(made, {'spec': {'snapshotCompatibilityClass': 'abc'}}), IMMUTABLE, 'spec')
    refused(s.patch(made, {'spec': {'snapshotCompatibilityClass': None}}), IMMUTABLE, 'spec')
    s.refused({'snapshotCompatibilityClass': '-abc', 'agent': AGENT}, 'should match')
    s.refused({'snapshotCompatibilityClass': 'a' * 64, 'agent': AGENT}, 'may not be more than 63')


@case('01-10.1.13')
def nulls_take_the_default(s):
    spec = s.created({'nodePool': '', **with_agent(replicas=None, mode=None)})['spec']
    assert (spec['agent']['replicas'], spec['agent']['mode'], spec['nodePool']) == (0, 'clone', ''), spec


@case('01-10.1.14')
def unknown_fields_are_dropped_with_a_warning(s):
    status, answer, headers = s.create({**with_agent(), 'colour': 'red'})
    assert status == 201 and 'colour' not in answer['spec'], answer
    assert headers['Warning'].startswith('299') and 'spec.colour' in headers['Warning'], headers['Warning']


@case('01-10.1.15')
def status_needs_its_own_endpoint(s):
    made = s.created({'agent': AGENT}, status={'phase': 'Running'})
    assert 'status' not in made
    assert 'status' not in s.patched(made, {'status': {'phase': 'Running'}})
    moved = s.patched(made, {'status': {'phase': 'Running'}, 'spec': {'suspend': True}}, '/status')
    assert moved['status'] == {'phase': 'Running'} and 'suspend' not in moved['spec'], moved
    assert moved['metadata']['generation'] == made['metadata']['generation']


@case('01-10.1.16')
def status_is_checked(s):
    made = s.created({'agent': AGENT})
    refused(s.patch(made, {'status': {'phase': 'Frozen'}}, '/status'), 'Unsupported value')
    refused(s.patch(made, {'status': {'phase': ''}}, '/status'), 'Unsupported value')
    twice = [{'slot': 0, 'role': 'main'}, {'slot': 0, 'role': 'main'}]
    refused(s.patch(made, {'status': {'agents': twice}}, '/status'), 'Duplicate value')
    refused(s.patch(made, {'status': {'agents': [{'slot': 0}]}}, '/status'), 'Required value', 'status.agents[0].role')


CONDITION = {'type': 'Ready', 'status': 'True', 'reason': 'Done', 'message': '', 'lastTransitionTime': '2026-08-12T04:11:05Z'}


@case('01-10.1.17')
def conditions_are_checked(s):
    made = s.created({'agent': AGENT})
    without = {k: v for k, v in CONDITION.items() if k != 'lastTransitionTime'}
    refused(s.patch(made, {'status': {'conditions': [without]}}, '/status'), 'Required value')
    refused(s.patch(made, {'status': {'conditions': [{**CONDITION, 'reason': ''}]}}, '/status'), 'status.conditions[0].reason')
    kept = s.patched(made, {'status': {'conditions': [CONDITION]}}, '/status')
    assert kept['status']['conditions'] == [CONDITION], kept


@case('01-10.1.18')
def patch_types(s):
    made = s.created({'agent': AGENT})
    path = s.path('cocoonsets', made['metadata']['name'])
    status, _, _ = s.api.call('PATCH', path, {'spec': {'suspend': True}}, 'application/strategic-merge-patch+json')
    assert status == 415, status
    s.patched(made, {'spec': {'suspend': True}})
    stale = {'metadata': {'resourceVersion': made['metadata']['resourceVersion'], 'finalizers': [GROUP + '/finalizer']}}
    status, answer, _ = s.patch(made, stale)
    assert status == 409 and answer['reason'] == 'Conflict', (status, answer)


@case('01-10.1.19')
def hibernation_rules(s):
    made = s.created({'podRef': {'name': 'p'}, 'desire': 'Hibernate'}, 'CocoonHibernation')
    refused(s.patch(made, {'spec': {'podRef': {'name': 'q'}}}), 'spec.podRef is immutable', 'spec.podRef')
    refused(s.patch(made, {'spec': {'podRef': None}}), 'Required value', 'spec.podRef')
    refused(s.patch(made, {'spec': {'desire': 'hibernate'}}), 'Unsupported value')
    s.refused({'podRef': {'name': 'p'}, 'desire': 'hibernate'}, 'Unsupported value', kind='CocoonHibernation')
    assert s.patched(made, {'spec': {'desire': 'Wake'}})['metadata']['generation'] == 2


@case('01-10.1.20')
def hibernation_names_are_free(s):
    first = s.created({'podRef': {'name': 'p'}, 'desire': 'Hibernate'}, 'CocoonHibernation')
    second = s.created({'podRef': {'name': 'p'}, 'desire': 'Wake'}, 'CocoonHibernation')
    assert first['metadata']['name'] != second['metadata']['name']


@case()
def names_columns_and_subresources(s):
    status, resources, _ = s.api.call('GET', f'/apis/{GROUP}/v1')
    assert status == 200
    found = {r['name']: r for r in resources['resources']}
    assert set(found) == {'cocoonsets', 'cocoonsets/status', 'cocoonhibernations', 'cocoonhibernations/status'}, found
    assert found['cocoonsets']['shortNames'] == ['cs', 'cocoonsets'] and found['cocoonsets']['categories'] == ['cocoon']
    assert found['cocoonhibernations']['shortNames'] == ['ch', 'cocoonhibernations']
    assert found['cocoonhibernations']['namespaced'] and found['cocoonsets']['namespaced']
    for plural, columns in (('cocoonsets', ['Phase', 'Ready', 'Desired', 'Age']),
                            ('cocoonhibernations', ['Pod', 'Desire', 'Phase', 'Age'])):
        _, crd, _ = s.api.call('GET', f'/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{GROUP}')
        version, = crd['spec']['versions']
        assert [c['name'] for c in version['additionalPrinterColumns']] == columns
        assert version['subresources'] == {'status': {}}
        assert crd['metadata']['annotations']['helm.sh/resource-policy'] == 'keep'
        problems = [c for c in crd['status']['conditions'] if c['type'] == 'NonStructuralSchema' and c['status'] == 'True']
        assert not problems, problems


@case()
def every_field_of_the_schema_is_kept(s):
    vm = {'os': 'windows', 'backend': 'firecracker', 'connType': 'rdp', 'network': 'n', 'forcePull': True, 'noDirectIO': True,
          'probePort': 22, 'storage': '40Gi', 'resources': {'limits': {'cpu': 2}, 'requests': {'cpu': '1'},
                                                           'claims': [{'name': 'c', 'request': 'r'}]}}
    spec = {'suspend': True, 'snapshotPolicy': 'main-only', 'hibernatePolicy': 'retain', 'nodePool': 'gpu',
            'snapshotCompatibilityClass': 'n2-cascade-lake-v1', 'nodeName': 'node-b',
            'agent': {'image': 'i', 'replicas': 3, 'mode': 'run', 'serviceAccountName': 'b', **vm,
                      'envFrom': [{'configMapRef': {'name': 'c'}}, {'prefix': 'P_', 'secretRef': {'name': 's', 'optional': True}}]},
            'toolboxes': [{'name': 'w', 'image': 'i', 'mode': 'static', 'staticIP': '10.20.0.15', 'staticVMID': 'q', 'vncPort': 5901,
                           **vm}]}
    status, made, headers = s.create(copy.deepcopy(spec))
    assert status == 201 and made['spec'] == spec and headers['Warning'] is None, (made, headers['Warning'])
    wanted = {'observedGeneration': 1, 'phase': 'Running', 'readyAgents': 0, 'desiredAgents': 1, 'readyToolboxes': 0,
              'desiredToolboxes': 1, 'conditions': [{**CONDITION, 'observedGeneration': 1}],
              'agents': [{'slot': 0, 'role': 'main', 'podName': 'p', 'vmName': 'v', 'vmID': 'i', 'ip': '1.2.3.4', 'phase': 'Running',
                          'forkedFrom': 'f'}],
              'toolboxes': [{'name': 'w', 'podName': 'p', 'vmName': 'v', 'vmID': 'i', 'ip': '1.2.3.4', 'phase': 'Running',
                             'connType': 'vnc', 'vncPort': 5901}]}
    assert s.patched(made, {'status': copy.deepcopy(wanted)}, '/status')['status'] == wanted
    emptied = s.patched(made, {'status': {'agents': None, 'phase': None}}, '/status')['status']
    assert 'agents' not in emptied and 'phase' not in emptied
    made = s.created({'podRef': {'name': 'p'}, 'desire': 'Wake'}, 'CocoonHibernation')
    wanted = {'observedGeneration': 1, 'phase': 'Waking', 'vmName': 'v', 'conditions': [{**CONDITION, 'observedGeneration': 1}]}
    assert s.patched(made, {'status': copy.deepcopy(wanted)}, '/status')['status'] == wanted


@case()
def texts_are_our_own_and_complete(s):
    """Each field has a description; those of metadata are the API server's."""
    for plural in ('cocoonsets', 'cocoonhibernations'):
        _, crd, _ = s.api.call('GET', f'/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{GROUP}')
        schema = crd['spec']['versions'][0]['schema']['openAPIV3Schema']

        def walk(name, node):
            for key, child in node.get('properties', {}).items():
                assert key == 'metadata' or child.get('description'), f'{plural}: {name}.{key} has no description'
                walk(f'{name}.{key}', child)
            if 'items' in node:
                walk(name + '[]', node['items'])
        walk('', schema)


def built_pods(directory, back=None):
    """Runs the C part: it writes its pods to the directory, or judges those that came back."""
    build = os.environ.get('BUILD', 'build/' + os.environ.get('VARIANT', 'release'))
    program = f'{build}/unit/meta/test_pod_roundtrip'
    subprocess.run(['make', '-s', f'BUILD={build}', program], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    variables = dict(os.environ, CC_PODS_OUT=str(directory))
    if back:
        variables['CC_PODS_IN'] = str(back)
    subprocess.run([str(ROOT / program)], cwd=ROOT, check=True, env=variables, stdout=subprocess.DEVNULL)
    return sorted(directory.glob('*.json'))


@case()
def pods_are_accepted_and_do_not_drift(s):
    """What the operator builds passes admission, with and without a LimitRange that fills in and a request that the server
    rounds, and what comes back still matches its spec."""
    s.api.make(f'/api/v1/namespaces/{s.name}/serviceaccounts', {'metadata': {'name': 'builder'}})
    out, back = pathlib.Path(tempfile.mkdtemp()), pathlib.Path(tempfile.mkdtemp())
    try:
        pods = built_pods(out)
        assert len(pods) > 5, pods
        for limit_range in (False, True):
            if limit_range:
                limits = [{'type': 'Container', 'default': {'cpu': '500m', 'memory': '1Gi'},
                           'defaultRequest': {'cpu': '250m', 'memory': '512Mi'}}]
                s.api.make(f'/api/v1/namespaces/{s.name}/limitranges', {'metadata': {'name': 'l'}, 'spec': {'limits': limits}})
            for file in pods:
                pod = json.loads(file.read_text())
                pod['metadata']['namespace'] = s.name
                path = f'/api/v1/namespaces/{s.name}/pods'
                status, answer, headers = s.api.call('POST', path + '?fieldValidation=Strict', pod)
                assert status == 201, (file.name, status, answer)
                tolerations = [t['key'] for t in answer['spec']['tolerations']]
                assert len(tolerations) == 3, tolerations
                (back / file.name).write_text(json.dumps(answer))
                gone = {'gracePeriodSeconds': 0}
                assert s.api.call('DELETE', f"{path}/{pod['metadata']['name']}", gone)[0] == 200
            built_pods(out, back)
    finally:
        shutil.rmtree(out)
        shutil.rmtree(back)


def install(api):
    kubectl = subprocess.run([str(ROOT / 'hack/kube'), 'build'], check=True, capture_output=True, text=True).stdout.strip()
    for file in sorted((ROOT / 'charts/cocoon/crds').glob('*.yaml')):
        subprocess.run([f'{kubectl}/kubectl', 'apply', '--server-side', '-f', str(file)], check=True, env=api.environment,
                       stdout=subprocess.DEVNULL)
    subprocess.run([f'{kubectl}/kubectl', 'wait', '--for=condition=Established', '--timeout=30s', 'crd', '--all'], check=True,
                   env=api.environment, stdout=subprocess.DEVNULL)


def run(api, wanted):
    log = pathlib.Path(os.environ.get('CC_VECTORS_LOG') or ROOT / 'build/vectors.log')
    log.parent.mkdir(parents=True, exist_ok=True)
    passed = failed = 0
    for number, (function, vectors) in enumerate(CASES):
        if wanted not in function.__name__:
            continue
        try:
            function(Space(api, f'crd-{number}'))
        except Exception:
            failed += 1
            print(f'FAIL crd/{function.__name__}\n{traceback.format_exc()}')
            continue
        passed += 1
        with log.open('a') as lines:
            lines.writelines(f'{vector} test_crd:{function.__name__}\n' for vector in vectors)
    print(f'test_crd: {passed} passed, {failed} failed')
    return failed == 0 and passed > 0


def main():
    wanted = sys.argv[2] if sys.argv[1:2] == ['-k'] else ''
    directory = pathlib.Path(tempfile.mkdtemp(prefix='cocoon-crd-'))
    kube = str(ROOT / 'hack/kube')
    try:
        subprocess.run([kube, 'start', str(directory)], check=True, env=dict(os.environ, KUBE_PARTS='apiserver'))
        api = Api(directory)
        api.environment = dict(os.environ, KUBECONFIG=str(directory / 'kubeconfig'))
        install(api)
        good = run(api, wanted)
    finally:
        subprocess.run([kube, 'stop', str(directory)], check=False)
        shutil.rmtree(directory, ignore_errors=True)
    return 0 if good else 1


sys.exit(main())
